"""How the rows of several paths are split into calls."""

from __future__ import annotations

import pytest

from bathyscope.gradients.integrate import _split


@pytest.mark.parametrize("nodes", [1, 4, 7])
@pytest.mark.parametrize("size", [1, 3, 5, 21])
def test_every_node_of_every_path_is_in_one_call(nodes: int, size: int) -> None:
    paths = 3
    seen = []
    for first in range(0, paths * nodes, size):
        last = min(first + size, paths * nodes)
        pieces = _split(first, last, nodes)
        assert sum(own.stop - own.start for _, own in pieces) == last - first
        seen += [(s, node) for s, own in pieces for node in range(own.start, own.stop)]
    assert seen == [(s, node) for s in range(paths) for node in range(nodes)]
