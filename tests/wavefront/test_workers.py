"""Slices that are looked at side by side: each by a thread of its own, and as if there were one."""

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial

import pytest
import torch

from bathyscope.model.anatomy.readout import Readout
from bathyscope.wavefront import reader, workers
from bathyscope.wavefront.compare import compare
from bathyscope.wavefront.metrics import METRICS
from bathyscope.wavefront.reader import Reader
from bathyscope.wavefront.workers import SliceWorkers, worker_count

WIDTH, VOCABULARY, TOKENS = 16, 640, 37


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def compared(monkeypatch: pytest.MonkeyPatch, count: int) -> dict[str, torch.Tensor]:
    """Every metric of two rows, in slices of three tokens, looked at by so many workers."""
    monkeypatch.setattr(reader, "worker_count", lambda device: count)
    monkeypatch.setattr(reader, "_SLICE_ENTRIES", 3 * VOCABULARY)
    generator = torch.Generator().manual_seed(3)
    head = torch.nn.Linear(WIDTH, VOCABULARY, bias=False)
    with torch.no_grad():
        head.weight.copy_(torch.randn(VOCABULARY, WIDTH, generator=generator))
    reference_ND, *rows = torch.randn(3, TOKENS, WIDTH, generator=generator)
    targets_N = torch.arange(TOKENS) * 7
    return compare(
        Reader(Readout(None, head), VOCABULARY),
        reference_ND,
        [rows[0], reference_ND, rows[1]],
        list(METRICS),
        targets_N=targets_N,
    )


@pytest.mark.parametrize("count", [2, 3])
def test_every_metric_has_the_bits_of_one_worker(
    monkeypatch: pytest.MonkeyPatch, two_threads: None, count: int
) -> None:
    torch.set_num_threads(1)
    alone = compared(monkeypatch, 1)
    torch.set_num_threads(2)
    seen: set[str] = set()
    entropy = METRICS["entropy"]

    def noted(pair: object) -> torch.Tensor:
        seen.add(threading.current_thread().name)
        return entropy(pair)  # type: ignore[arg-type]

    monkeypatch.setitem(METRICS, "entropy", noted)
    together = compared(monkeypatch, count)
    # which of the workers took a slice is left to the machine
    assert seen
    assert threading.current_thread().name not in seen
    assert together.keys() == alone.keys() == METRICS.keys()
    for name, values in alone.items():
        assert torch.equal(values.nan_to_num(-1), together[name].nan_to_num(-1)), name


def test_workers_have_one_thread_and_no_gradients_and_the_caller_keeps_its_own(two_threads: None) -> None:
    def settings() -> tuple[int, bool]:
        return torch.get_num_threads(), torch.is_grad_enabled()

    pool = SliceWorkers()
    assert pool.run([settings] * 5, 2) == [(1, False)] * 5
    assert settings() == (2, True)
    later: list[int] = []
    thread = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert later == [2], "a thread that somebody begins later has the caller's number"


def test_results_are_in_order_and_the_first_error_comes_when_nothing_runs() -> None:
    pool = SliceWorkers()
    assert pool.run([partial(pow, base, 2) for base in range(9)], 2) == [base**2 for base in range(9)]
    running: list[int] = []

    def job(number: int) -> int:
        if number in (1, 4):
            raise torch.OutOfMemoryError(f"job {number}")
        running.append(number)
        return number

    with pytest.raises(torch.OutOfMemoryError, match="job 1"):
        pool.run([partial(job, number) for number in range(6)], 2)
    assert sorted(running) == [0, 2, 3, 5]
    assert pool.run([partial(job, 7), partial(job, 8)], 2) == [7, 8], "the workers go on"


def test_a_forked_process_has_workers_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads do not live on in a fork: jobs for those of the process before would never be done."""
    pool = SliceWorkers()
    pool.run([os.getpid] * 2, 2)
    earlier = pool._pool
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert pool.run([os.getpid] * 2, 2) == [-1, -1]
    assert pool._pool is not earlier


def test_as_many_workers_as_torch_has_threads_on_a_cpu(two_threads: None) -> None:
    cpu = torch.device("cpu")
    assert worker_count(cpu) == 2
    assert worker_count(torch.device("meta")) == 1
    torch.set_num_threads(1)
    assert worker_count(cpu) == 1
    torch.set_num_threads(workers._MOST + 3)
    assert worker_count(cpu) == workers._MOST


def test_where_memory_is_limited_slices_come_one_after_the_other(two_threads: None) -> None:
    head = Readout(None, torch.nn.Linear(WIDTH, VOCABULARY, bias=False))
    seen: list[str] = []

    def job() -> None:
        seen.append(threading.current_thread().name)

    Reader(head, VOCABULARY, room=1 << 24).side_by_side([job] * 3, torch.device("cpu"))
    assert seen == [threading.current_thread().name] * 3


def test_what_a_slice_gives_is_stored_before_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    # kept alive, small arrays of a thousand slices keep the heap from using the large ones' memory again
    alive: list[weakref.ref[torch.Tensor]] = []
    most = 0

    def counted(name: str) -> Callable[[object], torch.Tensor]:
        metric = METRICS[name]

        def measure(pair: object) -> torch.Tensor:
            nonlocal most
            most = max(most, sum(reference() is not None for reference in alive))
            values = metric(pair)  # type: ignore[arg-type]
            alive.append(weakref.ref(values))
            return values

        return measure

    monkeypatch.setattr("bathyscope.wavefront.compare.METRICS", {name: counted(name) for name in METRICS})
    compared(monkeypatch, 1)
    assert len(alive) > 100
    # what a pair has computed once for several metrics may live as long as the slice
    assert most <= len(METRICS)
