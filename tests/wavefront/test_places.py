"""Places are slices where they can be, and are sent to a device once."""

from __future__ import annotations

import torch

from bathyscope.wavefront.places import at, index, sent

CPU = torch.device("cpu")


def test_neighbours_are_a_slice() -> None:
    assert at([3], CPU) == slice(3, 4)
    assert at(range(2, 5), CPU) == slice(2, 5)
    values = torch.arange(10)
    for numbers in ([3], [2, 3, 4], [4, 3], [0, 2], [1, 1]):
        assert values[at(numbers, CPU)].tolist() == numbers


def test_an_index_is_made_once_for_each_list() -> None:
    assert index([4, 1], CPU) is index((4, 1), CPU)
    assert index([4, 1], CPU).dtype == torch.long
    assert sent([4, 1], CPU) is not sent([4, 1], CPU)
    assert index([], CPU).tolist() == []
