"""A limit of memory holds inside of its block, and is gone behind it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bathyscope.core.headroom import headroom

resource = pytest.importorskip("resource")
pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="what is mapped is not told")


def test_more_is_refused_inside_and_allowed_again_behind_it() -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(MemoryError), headroom(1 << 26):
        bytearray(1 << 30)
    assert resource.getrlimit(resource.RLIMIT_AS) == before
    assert len(bytearray(1 << 28)) == 1 << 28


def test_it_is_gone_whichever_thread_ends_last() -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)

    def hold(_: int) -> int:
        with headroom(1 << 28):
            return len(bytearray(1 << 20))

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(hold, range(50))) == {1 << 20}
    assert resource.getrlimit(resource.RLIMIT_AS) == before
