"""A pool of workers on a Ray cluster: tasks are handed out, and handed out again where a worker was lost.

Workers are Ray actors that Ray does not restart: one that died, hangs or lost its GPU is replaced here. The new one
plans for itself, and its plan is compared with the others' before it computes.
"""

import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bathyscope.errors import BathyscopeError, ModelError, warn
from bathyscope.surveying.distributed.worker import Planned, Worker, WorkOrder

_TRIES: Final = 5
"""Workers that one task, or the beginning, may take with it, before it is taken to be at fault."""
_GLANCE: Final = 2.0
"""Seconds between looks at who is late."""
_LOST_DEVICE: Final = ("CUDA error", "device-side assert", "ECC error")
"""What torch says of a device that answers nothing in this process any more."""


@dataclass(frozen=True)
class WorkerTask:
    """A call of one of a worker's methods.

    Args:
        what: is computed, for messages.
    """

    what: str
    method: str
    arguments: tuple[Any, ...] = field(repr=False)


@dataclass
class _Member:
    """A worker and what it does now.

    Args:
        label: what it has planned.
        under_way: the call that is not answered yet, which is ``task``, or planning ``planning``.
        since: when that call was made.
    """

    actor: Any
    label: str | None = None
    under_way: Any = None
    task: WorkerTask | None = None
    planning: str = ""
    since: float = 0.0


class Pool:
    """Workers that compute one survey.

    Args:
        order: what each of them is to plan.
        gpus: of each worker, 0 or 1.
        timeout: seconds after which a worker that does not come back is taken to hang.
    """

    def __init__(self, order: WorkOrder, workers: int, gpus: int, timeout: float) -> None:
        self._order, self._gpus, self._timeout = order, gpus, timeout
        self._agreed: dict[str, Planned] = {}
        self._lost: Counter[str] = Counter()
        self._members = [_Member(self._started()) for _ in range(workers)]

    def planned(self, label: str) -> Planned:
        """Return what all workers have planned for the model ("") or a control, when every one of them has.

        Raises:
            OptionError, PromptError, ModelError: as ``survey``; workers that would not compute the same; workers that
                do not begin.
        """
        began = time.monotonic()
        while waiting := [member for member in self._members if member.label != label]:
            for member in waiting:
                if member.under_way is None:
                    self._ask(member, label, None)
            for _ in self._arrived():
                pass
            ready = len(self._members) - len(waiting)
            if ready and time.monotonic() - began > self._timeout:
                warn(f"{ready} of {len(self._members)} workers have begun; the others join when they can.")
                break
        return self._agreed[label]

    def results(self, label: str, tasks: Sequence[WorkerTask]) -> Iterator[tuple[WorkerTask, Any]]:
        """Yield every task with its result, as they come.

        Raises:
            BathyscopeError: what a worker raises; a task that ends worker after worker.
        """
        left = deque(tasks)
        open_tasks = len(left)
        while open_tasks:
            for member in self._members:
                if member.under_way is None and (member.label != label or left):
                    self._ask(member, label, left.popleft() if member.label == label else None)
            for task, result in self._arrived(left):
                open_tasks -= 1
                yield task, result

    def close(self) -> None:
        """End all workers."""
        import ray

        for member in self._members:
            ray.kill(member.actor)

    def _started(self) -> Any:
        import ray

        # Ray would restart an actor without its plan, and its new process might hold other weights
        actor_class = ray.remote(Worker).options(num_cpus=1, num_gpus=self._gpus, max_restarts=0, max_task_retries=0)
        return actor_class.remote(self._order)

    def _ask(self, member: _Member, label: str, task: WorkerTask | None) -> None:
        """Let a worker do a task, or plan."""
        method, arguments = ("plan", ()) if task is None else (task.method, task.arguments)
        member.task, member.since = task, time.monotonic()
        if task is None:
            member.label, member.planning = None, label
        member.under_way = getattr(member.actor, method).remote(label, *arguments)

    def _arrived(self, left: deque[WorkerTask] | None = None) -> Iterator[tuple[WorkerTask, Any]]:
        """Yield what comes back within a glance; tasks of lost workers go back to the front of ``left``."""
        import ray
        from ray.exceptions import RayError, RayTaskError

        by_call = {member.under_way: member for member in self._members if member.under_way is not None}
        done, _ = ray.wait(list(by_call), timeout=_GLANCE)
        for call in done:
            member = by_call[call]
            try:
                result = ray.get(call)
            except RayTaskError as error:
                cause = error.cause
                if isinstance(cause, BathyscopeError):
                    raise cause from None
                if not any(sign in str(cause) for sign in _LOST_DEVICE):
                    raise
                self._replace(member, f"its device failed ({_short(cause)})", left)
            except RayError as error:
                self._replace(member, _short(error), left)
            else:
                task, member.task, member.under_way = member.task, None, None
                if task is None:
                    self._join(member, result)
                else:
                    yield task, result
        for member in self._members:
            # a worker that waits for room on the cluster is not late
            late = member.under_way is not None and time.monotonic() - member.since > self._timeout
            if late and member.task is not None:
                self._replace(member, f"nothing came back within {self._timeout:.0f} s", left)
        self._require_somebody()

    def _require_somebody(self) -> None:
        began = [member.since for member in self._members if member.under_way is not None and member.task is None]
        if len(began) == len(self._members) and time.monotonic() - max(began) > self._timeout:
            raise ModelError(
                f"No worker has begun within {self._timeout:.0f} s: the cluster is busy or has lost its machines, or "
                f"loading {self._order.model} takes longer (worker_timeout=..., --worker-timeout ...)."
            )

    def _join(self, member: _Member, planned: Planned) -> None:
        planned.require_like(self._agreed.setdefault(member.planning, planned))
        member.label = member.planning
        # only workers that are lost one after another show that loading is at fault
        self._lost[""] = 0

    def _replace(self, member: _Member, reason: str, left: deque[WorkerTask] | None) -> None:
        """Replace a worker and requeue its task.

        Raises:
            ModelError: the task has taken too many workers with it.
        """
        import ray

        task = member.task
        what = "" if task is None else task.what
        self._lost[what] += 1
        if self._lost[what] >= _TRIES:
            doing = f"{what} was computed" if what else f"{self._order.model} was loaded and the survey planned"
            raise ModelError(
                f"{_TRIES} workers were lost while {doing}, the last because {reason}. What is finished is kept, and "
                "the same command goes on from there; too little memory is the usual reason (fewer workers a machine, "
                "smaller batch_tokens)."
            )
        warn(f"A worker was lost ({reason}); another one takes its place.")
        if task is not None and left is not None:
            left.appendleft(task)
        ray.kill(member.actor)
        member.actor, member.label, member.task, member.under_way = self._started(), None, None, None


def _short(error: object) -> str:
    text = " ".join(str(error).split())
    if "No module named 'bathyscope'" in text:
        return "bathyscope is not installed on its machine"
    first = text.partition(". ")[0].rstrip(".")
    return first if len(first) <= 200 else f"{first[:200]} …"
