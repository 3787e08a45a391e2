"""The few numbers of the landing page: the real model next to its untrained controls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from studies.real_model.claims import CLAIMS
from studies.real_model.page import UNTRAINED, Stored, describe_range, describe_reading, readings

BEGIN: Final = "<!-- real model: written by `python -m studies.real_model page`, do not edit -->"
END: Final = "<!-- end of the real model -->"
ROWS: Final = {
    "cosine_rises": "blocks first erase or add sideways, and strengthen later (mean cosine, second half less first)",
    "mlp_grows": "MLP contributions grow at the end (last fifth over middle)",
    "attention_local": "early blocks attend to the tokens just before (first fifth less the rest)",
    "drop_middle": "share of top-1 predictions that stay without one middle block",
    "drop_first": "cost of losing block 0, over that of a middle block",
    "skip_output": "effect of late blocks on later tokens, over that on their own",
}
"""Key of a claim → its quantity in fewer words."""


def landing_markdown(stored: Stored) -> str:
    """Return the table; a quantity that is not measured has a dash."""
    return "\n".join(_rows(stored))


def _rows(stored: Stored) -> Iterator[str]:
    yield "| | SmolLM2 | untrained |"
    yield "|---|---|---|"
    claims = {claim.key: claim for claim in CLAIMS}
    for key, words in ROWS.items():
        by_model = readings(claims[key], stored)
        untrained = [by_model[name].value for name in UNTRAINED if name in by_model]
        yield f"| {words} | {describe_reading(by_model.get('smollm2'))} | {describe_range(untrained)} |"
