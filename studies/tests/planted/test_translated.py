"""The translated lens on models whose depth is known: where can the answer be decoded, used or not?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import xarray as xr
from support.planted import swept

from bathyscope import Run
from studies.planted import CONSTRUCTIONS
from studies.planted.depths import NEARLY_ALL
from studies.planted.rotated import ROTATION, STEPS

UNUSED = {"detour": NEARLY_ALL, "backup": NEARLY_ALL, "unused_copy": NEARLY_ALL, "either": NEARLY_ALL}
UNUSED |= {"shared_weights": 0.9}
"""Where a map finds the answer, of this share of the tokens, before the model uses what it is found in."""
Found = Callable[[str], xr.Dataset]


@pytest.fixture(scope="module")
def found(run_of: Callable[[str], Run]) -> Found:
    """The prompts that are read."""
    return lambda name: run_of(name)["translated_lens"].dropna("prompt", subset=["prediction_depth"])


@pytest.fixture(scope="module")
def agreement(found: Found) -> Callable[..., np.ndarray]:
    """Of a model, [prompt, boundary]."""
    return lambda name, reader="translated": found(name)["top1_agreement"].sel(reader=reader).values


@pytest.mark.parametrize("name", swept(name for name in CONSTRUCTIONS if name not in UNUSED))
def test_the_answer_is_first_decodable_where_it_is_known(
    name: str, found: Found, agreement: Callable[..., np.ndarray]
) -> None:
    everywhere, depth = agreement(name).mean(0), CONSTRUCTIONS[name].truth.depth
    assert (everywhere[:depth] < NEARLY_ALL).all()
    assert (everywhere[depth:] > NEARLY_ALL).all()
    # a mean over tokens: of two depths it lies between them
    decodable = float(found(name)["decodable"])
    assert CONSTRUCTIONS[name].truth.mean_depth - 2 < decodable <= CONSTRUCTIONS[name].truth.mean_depth


@pytest.mark.parametrize("name", swept(UNUSED))
def test_what_is_not_used_yet_is_decodable_too(name: str, agreement: Callable[..., np.ndarray]) -> None:
    first = int(np.argmax(agreement(name).mean(0) > UNUSED[name]))
    assert 0 < first <= CONSTRUCTIONS[name].truth.depth - 2


def test_an_answer_in_other_directions_is_read_perfectly_from_the_boundary_where_it_is_known(
    found: Found, agreement: Callable[..., np.ndarray]
) -> None:
    assert (agreement("rotated")[:, STEPS:] == 1).all()
    assert agreement("rotated")[:, :STEPS].mean(0).max() < 0.5
    assert found("rotated")["kl"].sel(reader="translated").values[:, STEPS:].max() < 1e-6


def test_the_lens_waits_for_the_block_that_turns_it(found: Found, agreement: Callable[..., np.ndarray]) -> None:
    read = agreement("rotated", "lens")
    assert (read[:, ROTATION + 1 :] == 1).all()
    assert read[:, : ROTATION + 1].mean(0).max() < 0.5
    assert float(found("rotated")["readable"]) == pytest.approx(ROTATION + 1, abs=0.1)
