"""Slices of readouts side by side on a CPU: each core has slices of its own, and no operation is divided.

Arithmetic over a vocabulary is some forty short operations on a slice. Divided between threads, each of them ends with
a meeting of all; a slice that stays with one thread has none. Its sums are those of a single thread, whatever number of
workers there is.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Barrier
from typing import Final, TypeVar

import torch

_MOST: Final = 4
"""Slices that are in work at once: each has arrays of some MiB of its own."""
Result = TypeVar("Result")


def worker_count(device: torch.device) -> int:
    """Return how many slices are looked at side by side: one on an accelerator, and where torch has one thread."""
    return min(torch.get_num_threads(), _MOST) if device.type == "cpu" else 1


class SliceWorkers:
    """Threads that take one slice at a time, and in which torch has one thread."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._made_for = (0, 0)

    def run(self, jobs: Sequence[Callable[[], Result]], count: int) -> list[Result]:
        """Do some jobs and return their results, in order.

        Args:
            count: of workers; 1 = the jobs are done here.

        Raises:
            Exception: that of the first job that failed, when no job runs any more.
        """
        if count == 1 or len(jobs) == 1:
            return [job() for job in jobs]
        futures = [self._pool_of(count).submit(_without_gradients, job) for job in jobs]
        try:
            wait(futures)
        finally:
            # after an interrupt too: what has not begun is left out
            for future in futures:
                future.cancel()
        return [future.result() for future in futures]

    def _pool_of(self, count: int) -> ThreadPoolExecutor:
        # threads do not live on in a process that was forked
        made_for = (count, os.getpid())
        if self._pool is None or self._made_for != made_for:
            self._pool, self._made_for = _single_threaded(count), made_for
        return self._pool


def _without_gradients(job: Callable[[], Result]) -> Result:
    # whether gradients are taken is a setting of each thread
    with torch.no_grad():
        return job()


def _single_threaded(count: int) -> ThreadPoolExecutor:
    """Return a pool in whose threads torch has one thread."""
    threads = torch.get_num_threads()
    pool = ThreadPoolExecutor(count, thread_name_prefix="slices")
    # each of these jobs waits for all others, so that every thread of the pool has one
    barrier = Barrier(count + 1)

    def begin() -> None:
        # a thread takes the common number when it is first asked, and its own one only after that
        torch.get_num_threads()
        torch.set_num_threads(1)
        barrier.wait()

    begun = [pool.submit(begin) for _ in range(count)]
    barrier.wait()
    wait(begun)
    # torch also notes the number for threads to come, which are not these
    torch.set_num_threads(threads)
    return pool
