"""The few numbers of the landing page: the real models next to their untrained controls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from studies.real_model.claims import CLAIMS
from studies.real_model.jobs import UNTRAINED
from studies.real_model.judged import Stored, describe_range, describe_reading, readings
from studies.real_model.models import REAL_MODELS, ModelKey

BEGIN: Final = "<!-- real model: written by `python -m studies.real_model page`, do not edit -->"
END: Final = "<!-- end of the real model -->"
ROWS: Final = {
    "cosine_rises": "what blocks add lies more along the stream later (mean cosine, second half less first)",
    "mlp_grows": "MLP contributions are larger at the end (last fifth of the blocks over the middle)",
    "attention_local": "early blocks attend to the tokens just before (first fifth less the rest)",
    "drop_middle": "share of top-1 predictions that stay without one middle block",
    "drop_first": "cost of losing block 0, over that of a middle block",
    "skip_output": "effect of late blocks on later tokens, over that on their own",
}
"""Key of a claim → its quantity in fewer words."""


def landing_markdown(stored: Mapping[ModelKey, Stored]) -> str:
    """Return the table; a quantity that is not measured has a dash."""
    return "\n".join(_rows(stored))


def _rows(stored: Mapping[ModelKey, Stored]) -> Iterator[str]:
    yield f"| | {' | '.join(f'{real.short} | untrained' for real in REAL_MODELS.values())} |"
    yield f"|{'---|' * (1 + 2 * len(REAL_MODELS))}"
    claims = {claim.key: claim for claim in CLAIMS}
    for key, words in ROWS.items():
        cells = [words]
        for model in REAL_MODELS:
            by_model = readings(claims[key], stored.get(model, {}))
            untrained = [by_model[name].value for name in UNTRAINED if name in by_model]
            cells += [describe_reading(by_model.get(model)), describe_range(untrained)]
        yield f"| {' | '.join(cells)} |"
