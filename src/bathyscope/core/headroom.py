"""A limit of memory for programs of others, such as chat templates, that may ask for all there is."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_MEMORY: Final = Path("/proc/self/statm")
# the limit is the process's: two blocks at once would each take the other's for what it was before
_ONE_AT_A_TIME: Final = threading.RLock()


@contextmanager
def headroom(more: int) -> Iterator[None]:
    """Let the process map no more than some further memory inside of the block; MemoryError where it wants more.

    Nothing happens where the system has no such limit, or does not tell what is mapped already.

    Args:
        more: bytes.
    """
    with _ONE_AT_A_TIME:
        mapped = _mapped()
        if mapped is None:
            yield
            return
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        limits = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
        resource.setrlimit(resource.RLIMIT_AS, (min([mapped + more, *limits]), hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _mapped() -> int | None:
    """Bytes that the process has mapped; None where that cannot be told or limited."""
    try:
        import resource

        return int(_MEMORY.read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    except (ImportError, OSError, ValueError):
        return None
