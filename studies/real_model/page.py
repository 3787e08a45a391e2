"""The page of the study: what was claimed, what was bounded, what was measured. Rows that are not measured say so."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np
import xarray as xr

from bathyscope.errors import OptionError
from bathyscope.extend.statistics import share_interval
from studies.real_model.deciding import decisions_table
from studies.real_model.jobs import JOBS
from studies.real_model.judged import NOT_YET, Stored, agreement_table, claims_table, rows_of, summary
from studies.real_model.models import REAL_MODELS, ModelKey, RealModel
from studies.real_model.observations import behind_the_claims, mean_curve
from studies.real_model.reading import LEVEL

BEGIN: Final = "<!-- results: written by `python -m studies.real_model page`, do not edit -->"
END: Final = "<!-- end of the results -->"
MASSIVE: Final = 10.0
"""Times by which a block makes the largest value in the stream grow if it writes a massive activation."""


def load_results(folder: Path) -> dict[str, dict[str, xr.Dataset]]:
    """Read every stored survey of a folder."""
    stored: dict[str, dict[str, xr.Dataset]] = {}
    for file in sorted(folder.glob("*__*.nc")):
        job, _, model = file.stem.partition("__")
        stored.setdefault(model, {})[job] = xr.load_dataset(file, engine="h5netcdf")
    return stored


def markdown(stored: Mapping[ModelKey, Stored]) -> str:
    """Summary, table of claims, and what was measured on what."""
    rows = {key: rows_of(real, stored.get(key, {})) for key, real in REAL_MODELS.items()}
    lines = [
        *summary(rows),
        *claims_table(rows),
        *agreement_table(rows),
        *decisions_table(rows, stored),
    ]
    for key, real in REAL_MODELS.items():
        surveys = stored.get(key, {})
        lines += [f"### {real.short}: what was seen, and on what", ""]
        lines += [*_observations(surveys.get(key, {})), *_surveys(surveys, real), ""]
    return "\n".join(lines)


def with_results(text: str, stored: Mapping[ModelKey, Stored]) -> str:
    """Return a page with what stands between its two marks replaced.

    Raises:
        OptionError: the marks are not there, once each and in order.
    """
    return put_between(text, BEGIN, END, markdown(stored))


def put_between(text: str, begin_mark: str, end_mark: str, body: str) -> str:
    """Return a text with what stands between two marks replaced.

    Raises:
        OptionError: the marks are not in it, once each and in order.
    """
    before, begin, rest = text.partition(begin_mark)
    _, end, after = rest.partition(end_mark)
    if not begin or not end or begin_mark in rest or end_mark in before + after:
        raise OptionError(
            f"The page has no place for the results; add the lines {begin_mark!r} and {end_mark!r}, once each."
        )
    return f"{before}{begin_mark}\n\n{body}\n{end_mark}{after}"


def _observations(surveys: Mapping[str, xr.Dataset]) -> Iterator[str]:
    """What the model has that models of random weights have not: read off the stored curves."""
    if "stream" in surveys:
        largest = mean_curve(surveys["stream"], "residual.largest")
        block = int(np.argmax(largest[1:] / largest[:-1] * (largest[1:] > largest.max() / 2)))
        if largest[block + 1] > MASSIVE * largest[block]:
            yield (
                f"Block {block} writes a massive activation: on GSM8K the largest value in the stream is "
                f"{largest[block]:,.0f} before it, {largest[block + 1]:,.0f} behind it, and "
                f"{largest[-1]:,.0f} at the end."
            )
        else:
            yield (
                "No single block writes the largest values: on GSM8K the largest value in the stream grows over many "
                f"blocks, from {largest[0]:,.0f} to {largest.max():,.0f} at boundary {int(largest.argmax())}, and is "
                f"{largest[-1]:,.0f} at the end."
            )
    if "drop" in surveys:
        kl = mean_curve(surveys["drop"], "drop.kl")
        dearest = ", ".join(f"{place} ({kl[place]:.1f} nats)" for place in np.argsort(-kl)[:4])
        yield f"The most expensive blocks to remove are {dearest}; the median is {np.median(kl):.2f} nats."
    if "attention" in surveys:
        first = mean_curve(surveys["attention"], "attention_locality.first_key")
        yield (
            f"The first token takes {100 * first.max():.0f} % of the attention in block {int(first.argmax())}, "
            f"and {100 * first[:2].mean():.0f} % in the first two blocks."
        )
    if "weights" in surveys:
        shares = [surveys["weights"][f"neurons.{kind}_fraction"].values for kind in ("prediction", "suppression")]
        most = " and ".join(
            f"{100 * share.max():.1f} % {kind} neurons (block {int(share.argmax())})"
            for kind, share in zip(("prediction", "suppression"), shares)
        )
        yield f"No block has more than {most}."
    if "wic" in surveys:
        correct = surveys["wic"]["wic.correct"].transpose("prompt", "boundary").values
        best = correct[:, correct.mean(0).argmax()]
        low, high = (100 * end for end in share_interval(best, level=LEVEL))
        yield (
            f"The best WiC probe of {correct.shape[1]} boundaries, picked by the rows that judge it, classifies "
            f"{100 * best.mean():.0f} % ({low:.0f} to {high:.0f} %) of {len(best)} rows correctly, where the majority "
            f"label does {100 * float(surveys['wic'].attrs['majority']):.0f} %."
        )
    if "gradients" in surveys:
        data = surveys["gradients"]
        missed = float(np.abs(data["integrated_gradients.completeness"]).max())
        yield (
            f"Integrated gradients with 12 nodes miss the probability that they explain by up to {missed:.2g}: along "
            "the path to the mean token it turns sharply, and their row is no more than a first look."
        )
    yield from behind_the_claims(surveys)
    yield ""


def _surveys(stored: Stored, real: RealModel) -> Iterator[str]:
    yield "| survey | data | models | prompts, controls' | tokens, controls' | CPU minutes | peak GB |"
    yield "|---|---|---|---|---|---|---|"
    for job in JOBS:
        present = {model: surveys[job.name] for model, surveys in stored.items() if job.name in surveys}
        if not present:
            yield f"| `{job.name}` | {job.data} | {NOT_YET} | | | | |"
            continue
        first = present.get(real.key)
        controls = [data for model, data in present.items() if model != real.key]
        cells = [
            f"`{job.name}`",
            job.data,
            ", ".join(sorted(present, key=lambda model: model != real.key)),
            _pair(first, controls, _prompts),
            _pair(first, controls, _tokens),
            f"{sum(data.attrs['cpu_seconds'] for data in present.values()) / 60:.1f}",
            f"{max(data.attrs['peak_bytes'] for data in present.values()) / 1e9:.1f}",
        ]
        yield f"| {' | '.join(cells)} |"
    versions = sorted({data.attrs["versions"] for surveys in stored.values() for data in surveys.values()})
    if versions:
        libraries = "; ".join(
            ", ".join(f"{key} {value}" for key, value in json.loads(text).items()) for text in versions
        )
        seconds = sum(data.attrs["cpu_seconds"] for surveys in stored.values() for data in surveys.values())
        yield (
            f"\nAll of it took {seconds / 60:.0f} CPU minutes, in float32 with one thread, by {libraries}. Peaks are "
            "of the process from the time when the model is loaded."
        )


def _pair(first: xr.Dataset | None, controls: list[xr.Dataset], count: object) -> str:
    assert callable(count)
    count_of_model = "–" if first is None else f"{count(first)}"
    return f"{count_of_model}, {count(controls[0])}" if controls else count_of_model


def _prompts(data: xr.Dataset) -> int:
    return int(data.attrs.get("prompts", data.sizes.get("prompt", 0)))


def _tokens(data: xr.Dataset) -> int:
    return int(data["n_tokens"].sum()) if "n_tokens" in data else 0
