from __future__ import annotations

import pytest
import torch

from bathyscope.model.anatomy.cache import CaptureCache

KEYS = torch.arange(2 * 3 * 5 * 2.0).view(2, 3, 5, 2)
VALUES = -KEYS


def test_capture_hands_through_and_keeps() -> None:
    cache = CaptureCache()
    assert (cache.keys, cache.calls, cache.get_seq_length()) == (None, 0, 0)
    keys, values = cache.update(KEYS, VALUES, 7, {"sin": None})
    assert keys is KEYS
    assert values is VALUES
    assert cache.keys is KEYS
    assert cache.values is VALUES
    assert cache.calls == 1


def test_a_tail_gets_its_donors_prefix_in_front() -> None:
    captured = CaptureCache()
    captured.update(KEYS, VALUES)
    assert captured.keys is not None
    assert captured.values is not None
    tail = CaptureCache(captured.keys[[1, 0, 1]], captured.values[[1, 0, 1]], start=2)
    own = torch.full((3, 3, 3, 2), 9.0)
    keys, values = tail.update(own, -own, layer_idx=4)
    assert tail.get_seq_length() == 2
    assert keys.shape == (3, 3, 5, 2)
    assert torch.equal(keys[:, :, :2], KEYS[[1, 0, 1], :, :2])
    assert torch.equal(keys[:, :, 2:], own)
    assert torch.equal(values, -keys)


def test_a_tail_without_a_prefix_fails() -> None:
    for cache in (CaptureCache(start=2), CaptureCache(KEYS, None, 2)):
        with pytest.raises(RuntimeError, match="a block whose donor rows gave no keys and values"):
            cache.update(KEYS, VALUES)
