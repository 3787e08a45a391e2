"""Gemma 3's shape: what is particular to it, and that every measure is compared with a naive one on it.

Two rotary tables, windows shorter than the prompts, an embedding that is scaled, norms before and after both parts,
norms of queries and keys, a single matrix for embedding and readout. Each of them is a place where a block's arguments
can be taken from another block, or a contribution be read before its norm.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support import naive, zoo
from support.fresh import fresh_module

from bathyscope.measures import registry

HERE = Path(__file__).parent
NAME = "gemma3"
FILES = {
    **{
        "residual": "parity",
        "lens": "parity",
        "skip": "parity",
        "drop": "parity",
        "swap": "parity",
        "repeat": "parity",
    },
    **{name: name for name in ("erasure", "direct", "pairs", "gradient", "integrated_gradients", "patching", "cka")},
    **{name: name for name in ("attention_locality", "neurons", "stages", "tokens", "effective_depth", "depth_score")},
    **{name: name for name in ("swap_cosine", "jacobian_lens", "translated_lens")},
}
"""The file of tests that compares a measure with a naive one, without ``test_``."""
NOT_OF_IT = {"loop_exits": "its blocks run once"}


def is_compared(file: str) -> bool:
    """Whether a test of the file has Gemma's shape among its cases."""
    tests = fresh_module(HERE / f"test_{file}.py", f"of_{file}_alone")
    return any(
        NAME in {value for case in mark.args[1] for value in getattr(case, "values", (case,)) if isinstance(value, str)}
        for name, test in vars(tests).items()
        if name.startswith("test_")
        for mark in getattr(test, "pytestmark", ())
        if mark.name == "parametrize"
    )


@pytest.mark.parametrize("measure", registry.MEASURES)
def test_every_measure_is_compared_with_a_naive_one_on_it(measure: str) -> None:
    if measure in NOT_OF_IT:
        return
    assert is_compared(FILES[measure])


def test_the_small_model_has_what_is_particular_to_the_large_one() -> None:
    model: Any = zoo.build(NAME)
    config, blocks = model.config, naive.blocks_of(model)
    assert {"sliding_attention", "full_attention"} == set(config.layer_types)
    assert all(len(ids) > config.sliding_window for ids in zoo.prompts(model, (9, 14)))
    rotary = model.model.rotary_emb
    tables = [rotary(torch.zeros(1, 9, 64), torch.arange(9)[None], layer)[0] for layer in set(config.layer_types)]
    assert not torch.allclose(*tables)
    states = naive.boundaries(model, blocks, [5, 6, 7])
    torch.testing.assert_close(states[0], model.model.embed_tokens.weight[[5, 6, 7]] * 8.0)
    assert model.lm_head.weight is model.model.embed_tokens.weight
    for block in blocks:
        norms = [module for name, module in block.named_modules() if name.endswith("norm")]
        assert len(norms) == 6  # around both parts, of queries and of keys
        assert all(norm.weight.std() > 0 for norm in norms)
