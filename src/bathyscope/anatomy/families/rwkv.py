"""RWKV-4: time mixing and channel mixing."""

from __future__ import annotations

from bathyscope.anatomy.family import Family

FAMILY = Family(
    name="rwkv",
    model_types=("rwkv",),
    blocks="rwkv.blocks",
    final_norm="rwkv.ln_out",
    attention=None,
    mlp=None,
    head="head",
    notes="The first block replaces its input by a norm of it, so its parts do not sum to its contribution. "
    "Where rescale_every is at least 1, the model halves the stream between blocks, which no block shows: "
    "set rescale_every to 0 in the configuration before loading.",
)
