"""The few numbers of the landing page: the real models next to their untrained controls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from studies.real_model.claims import CLAIMS
from studies.real_model.jobs import UNTRAINED
from studies.real_model.judged import Stored, describe_range, describe_reading, readings
from studies.real_model.models import REAL_MODELS, ModelKey
from studies.real_model.reading import QUANTITIES

if TYPE_CHECKING:
    import xarray as xr

BEGIN: Final = "<!-- real model: written by `python -m studies.real_model page`, do not edit -->"
END: Final = "<!-- end of the real model -->"
ROWS: Final = {
    "cosine_rises": "what blocks add lies more along the stream later (mean cosine, second half less first)",
    "mlp_grows": "MLP contributions are larger at the end (last fifth of the blocks over the middle)",
    "attention_local": "early blocks attend to the tokens just before (first fifth less the rest)",
    "drop_middle": "share of top-1 predictions that stay without one middle block",
    "drop_first": "cost of losing block 0, over that of a middle block",
    "skip_output": "effect of late blocks on the output at later tokens, over that at all tokens",
}
"""Key of a claim → its quantity in fewer words."""


def landing_markdown(stored: Mapping[ModelKey, Stored]) -> str:
    """Return the table and what it rests on; a quantity that is not measured has a dash."""
    return "\n".join((*_rows(stored), "", _rests_on(stored)))


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


def _rests_on(stored: Mapping[ModelKey, Stored]) -> str:
    """How many prompts each model and its controls read, and where there are fewer than three controls."""
    jobs = sorted({name for key in ROWS for name in QUANTITIES[key][0]})
    parts = []
    for model, real in REAL_MODELS.items():
        surveys = stored.get(model, {})
        controls = [surveys.get(name, {}) for name in UNTRAINED]
        own, theirs = _prompts([surveys.get(model, {})], jobs), _prompts(controls, jobs)
        measured = [sum(set(QUANTITIES[key][0]) <= set(control) for control in controls) for key in ROWS]
        fewer = sum(0 < count < len(UNTRAINED) for count in measured)
        missing = f", in {fewer} of the {len(ROWS)} rows fewer than {len(UNTRAINED)} models" if fewer else ""
        parts.append(f"{real.short} {own}, untrained {theirs}{missing}")
    return f"Intervals are of 95 %, over prompts. Prompts of a row: {'; '.join(parts)}."


def _prompts(models: Sequence[Mapping[str, xr.Dataset]], jobs: Sequence[str]) -> str:
    counts = [surveys[job].sizes["prompt"] for surveys in models for job in jobs if job in surveys]
    if not counts:
        return "–"
    return f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
