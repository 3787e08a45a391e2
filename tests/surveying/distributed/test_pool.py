"""Workers that are lost, and workers that join later and are not like the others, without a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from bathyscope import ModelError
from bathyscope.surveying.distributed.pool import Pool, WorkerTask
from bathyscope.surveying.distributed.worker import Planned

ray = pytest.importorskip("ray")
from ray.exceptions import RayTaskError, WorkerCrashedError  # noqa: E402

IDENTITY = {"weight_hash": "a", "device": "NVIDIA H200"}
PLANNED = Planned(IDENTITY, {}, {"torch": "2.13.0"}, b"", [1.0], False, "left (NVIDIA H200)")
TASKS = [WorkerTask(f"shard {number}", "shards", ([number],)) for number in range(3)]
Answer = Callable[[str, Any], Any]


@dataclass(frozen=True)
class Method:
    """A method of an actor; its call is the answer that will be got."""

    name: str
    answer: Answer

    def remote(self, label: str, *given: Any) -> Call:
        return Call(self, given)


@dataclass(frozen=True, eq=False)
class Call:
    """A call that is under way."""

    method: Method
    given: Any

    def got(self) -> Any:
        return self.method.answer(self.method.name, self.given)


class Actor:
    def __init__(self, answer: Answer) -> None:
        self.plan, self.shards = Method("plan", answer), Method("shards", answer)


@pytest.fixture
def pool_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Pool]:
    """Makes a pool of two workers; what is started later answers as the further ones say."""
    monkeypatch.setattr(ray, "wait", lambda calls, timeout: (calls, []))
    monkeypatch.setattr(ray, "get", lambda call: call.got())
    monkeypatch.setattr(ray, "kill", lambda actor: None)

    def made(*answers: Answer) -> Pool:
        waiting = iter(answers)
        monkeypatch.setattr(Pool, "_started", lambda pool: Actor(next(waiting)))
        return Pool(None, 2, 1, 60)  # type: ignore[arg-type]

    return made


def well(method: str, given: Any) -> Any:
    return PLANNED if method == "plan" else given[0]


def once(error: Exception) -> Answer:
    """A worker that plans, and fails at its first shard."""

    def answer(method: str, given: Any) -> Any:
        if method == "shards":
            raise error
        return PLANNED

    return answer


def failed(cause: Exception) -> RayTaskError:
    return RayTaskError("shards", f"Traceback: {cause}", cause)


def carried_out(pool: Pool) -> Mapping[str, Any]:
    pool.planned("")
    return {task.what: result for task, result in pool.results("", TASKS)}


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (failed(RuntimeError("CUDA error: an illegal memory access was encountered")), "its device failed .CUDA error"),
        (failed(RuntimeError("uncorrectable ECC error encountered")), "its device failed .uncorrectable ECC error"),
        (WorkerCrashedError(), "A worker was lost .The worker died"),
    ],
)
def test_what_a_lost_worker_or_device_was_at_is_done_by_another(
    error: Exception, reason: str, pool_of: Callable[..., Pool]
) -> None:
    pool = pool_of(once(error), well, well)
    with pytest.warns(UserWarning, match=rf"{reason}.*another one takes its place"):
        assert carried_out(pool) == {"shard 0": [0], "shard 1": [1], "shard 2": [2]}


def test_a_device_that_fails_again_and_again_ends_the_survey(pool_of: Callable[..., Pool]) -> None:
    pool = pool_of(*[once(failed(RuntimeError("CUDA error: device-side assert triggered")))] * 20)
    with (
        pytest.warns(UserWarning, match="A worker was lost"),
        pytest.raises(
            ModelError, match=r"5 workers were lost while shard \d was computed, the last because its device"
        ),
    ):
        carried_out(pool)


def test_one_that_takes_the_place_of_another_has_to_be_like_it(pool_of: Callable[..., Pool]) -> None:
    other = replace(PLANNED, versions={"torch": "2.12.0"}, place="right (NVIDIA H200)")
    pool = pool_of(well, once(WorkerCrashedError()), lambda method, given: other)
    with (
        pytest.warns(UserWarning, match="A worker was lost"),
        pytest.raises(
            ModelError, match=r"would not compute the same:\n  torch: left \(NVIDIA H200\) has 2.13.0, right"
        ),
    ):
        carried_out(pool)


def test_mixed_devices_are_refused_before_a_shard_is_handed_out(pool_of: Callable[..., Pool]) -> None:
    other = replace(PLANNED, identity={**IDENTITY, "device": "NVIDIA A100"}, place="right (NVIDIA A100)")
    pool = pool_of(well, lambda method, given: other if method == "plan" else pytest.fail("computed"))
    with pytest.raises(ModelError, match=r"device: left \(NVIDIA H200\) has 'NVIDIA H200', right .* 'NVIDIA A100'"):
        pool.planned("")


def test_what_is_no_loss_is_raised_as_it_is(pool_of: Callable[..., Pool]) -> None:
    pool = pool_of(once(failed(ModelError("Block 3 gives NaN."))), well)
    with pytest.raises(ModelError, match=r"^Block 3 gives NaN\.$"):
        carried_out(pool)
    pool = pool_of(once(failed(ZeroDivisionError("a fault of the program"))), well)
    with pytest.raises(RayTaskError, match="a fault of the program"):
        carried_out(pool)
