"""What the checks call a gap: the largest of any token, relative to that token."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bathyscope.model.anatomy.gaps import gap, random_ids, token_gap, token_gaps, tolerance
from bathyscope.model.anatomy.plain import probe_ids

WANTED = torch.ones(2, 12, 4)


def test_one_token_among_many_is_the_gap() -> None:
    """Not the mean of all tokens, and not relative to another token's massive activation."""
    found, wanted = WANTED.clone(), WANTED.clone()
    found[1, 7] *= 1.5
    wanted[0, 0] = found[0, 0] = 1e6
    assert token_gap(found, wanted) == pytest.approx(0.5)
    assert token_gaps(found, wanted).count_nonzero() == 1
    assert gap(found, wanted) == pytest.approx(0.5e-6)


def test_nan_is_no_small_gap() -> None:
    found = WANTED.clone()
    found[0, 3, 2] = torch.nan
    assert not token_gap(found, WANTED) <= 1
    assert not gap(found, WANTED) <= 1


def test_tolerances_follow_the_precision() -> None:
    assert tolerance(torch.float64) < tolerance(torch.float32) < tolerance(torch.float16) < tolerance(torch.bfloat16)


class Vocabulary(nn.Module):
    def __init__(self, entries: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(entries, 2)

    def get_input_embeddings(self) -> nn.Module:
        return self.embedding


@pytest.mark.parametrize("entries", [1, 2, 3, 7, 8, 100])
def test_every_vocabulary_has_the_ids_that_are_tried(entries: int) -> None:
    model = Vocabulary(entries)
    for ids in (probe_ids(model, 3, 7), random_ids(model)):
        assert 0 <= int(ids.min()) <= int(ids.max()) < entries
    assert len(probe_ids(model, 1, 14).unique()) == min(entries, 7)
