"""Surveys until they are sure, simulated: what is drawn reads as a survey of it would, and what is counted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from support.kept import ramps
from support.synthetic import plain_run

from studies.instruments import command, page
from studies.instruments.enough import NAMES, Readings, Simulation
from studies.instruments.readings import by_prompt

N_BLOCKS = 4


@st.composite
def measured(draw: st.DrawFn) -> dict[str, xr.Dataset]:
    """Lens and skip of up to twelve prompts: of one token and of more, alike, and without a reading."""
    depths = draw(st.lists(st.lists(st.integers(0, N_BLOCKS), max_size=6), min_size=2, max_size=12))
    kept = [[np.mean([d <= b for d in row]) if row else np.nan for b in range(N_BLOCKS + 1)] for row in depths]
    effects = draw(st.lists(st.tuples(*[st.integers(0, 3)] * N_BLOCKS), min_size=len(depths), max_size=len(depths)))
    tokens = {"n_tokens": ("prompt", [max(len(row), 1) for row in depths])}
    readable = [np.mean(row) if row else np.nan for row in depths]
    values = {"prediction_depth": ("prompt", readable), "top1_kept": (("prompt", "boundary"), kept)}
    changes = np.array(effects, dtype=np.float64)[:, None, None]
    output = {"output_all": (("prompt", "part", "reduction", "skipped"), changes)}
    coordinates = {"part": ["block"], "reduction": ["mean"], "skipped": range(N_BLOCKS)}
    return {
        "lens": xr.Dataset(values, {"boundary": range(N_BLOCKS + 1), **tokens}),
        "skip": xr.Dataset(output, {**coordinates, **tokens}),
    }


def verdict_at(measures: Mapping[str, xr.Dataset], places: list[int], seed: int = 0) -> Any:
    run = plain_run({name: data.isel(prompt=places) for name, data in measures.items()})
    run.manifest["identity"]["seed"] = seed
    return run.verdict


@settings(max_examples=40, deadline=None)
@given(measured(), st.data())
def test_prompts_that_are_drawn_read_as_a_survey_of_them(measures: dict[str, xr.Dataset], data: st.DataObject) -> None:
    """The second prompt has the tokens of the first, and is stored once."""
    count = measures["lens"].sizes["prompt"]
    run: Any = SimpleNamespace(
        verdict=verdict_at(measures, list(range(count))),
        prompts=[SimpleNamespace(ids=[max(n, 1)]) for n in range(count)],
    )
    stored = json.loads(command.json_text({"n_blocks": N_BLOCKS, **by_prompt(run)}))
    population, places = Readings.of_stored(stored), [0, *range(2, count)]
    assert population.prompts == len(places)
    drawn = data.draw(st.lists(st.integers(0, len(places) - 1), min_size=1, max_size=15))
    seed = data.draw(st.integers(0, 3))
    pairs = [
        (population, verdict_at(measures, places)),
        (population.take(np.array(drawn), seed), verdict_at(measures, [places[n] for n in drawn], seed)),
    ]
    for readings, verdict in pairs:
        for n, name in enumerate(NAMES):
            expected = getattr(verdict, name)
            assert readings.values[n] == pytest.approx(expected.value, abs=1e-7, nan_ok=True)
            assert readings.intervals[n] == pytest.approx(np.array(expected.interval), abs=1e-7, nan_ok=True)


def population_of(n_blocks: int = 8, **depths: Any) -> Readings:
    """Prompts of one length, each with its depth of every reading."""
    means = {name: list(depths[name]) for name in ("readable", "own")}
    shares = ramps(np.array(depths["half"]), n_blocks).tolist()
    return Readings.of_stored(
        {"n_blocks": n_blocks, "readings": means, "shares": shares, "tokens": [20.0] * len(shares)}
    )


def test_the_simulation_counts_prompts_and_coverage() -> None:
    rng = np.random.default_rng(0)
    population = population_of(**{name: rng.normal(4, 1, size=100).clip(0, 7.5) for name in NAMES})
    row = Simulation(draws=40, offered=60).run(population, 0.5)
    # a standard deviation of 1 needs about 18 prompts for ± 0.5, and one batch more
    assert 20 < row["prompts"] < 60
    for name in NAMES:
        # 40 draws of 95 % fall below 33 in one case of two thousand
        assert row[f"within_{name}"][0] > 0.8
        assert row[f"coverage_{name}"][0] > 0.8
        assert row[f"fixed_coverage_{name}"][0] > 0.8
    narrow = Simulation(draws=5, offered=20).run(population, 0.01)
    assert (narrow["prompts"], narrow["reached"]) == (20, 0)


@pytest.mark.parametrize("wide", [(), *((name,) for name in NAMES)])
def test_every_reading_has_to_be_known(wide: tuple[str, ...]) -> None:
    # equal depths would leave open what other prompts read, however many there are
    alike, apart = [4.0, 4.01] * 25, [1.0, 7.0] * 25
    row = Simulation(draws=5, offered=40).run(population_of(**{n: apart if n in wide else alike for n in NAMES}), 0.25)
    # two batches, of 10 and of 15, are enough where all prompts read alike
    assert (row["prompts"], row["reached"], row["fixed_reached"]) == ((40, 0, 0) if wide else (15, 1, 1))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.just("[\n 1,\n 2]"),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@settings(max_examples=50, deadline=None)
@given(JSON)
def test_what_is_stored_is_what_was_measured(content: Any) -> None:
    assert json.loads(command.json_text(content)) == content


def test_a_row_of_numbers_is_a_line() -> None:
    content = {
        "name": "a",
        "tokens": [1, 2.5],
        "shares": [[0.5, float("nan")], [-1e-5, None]],
        "texts": ["[1,", "2]"],
        "names": ["a  b"],
    }
    assert command.json_text(content).splitlines() == [
        "{",
        ' "name": "a",',
        ' "tokens": [1, 2.5],',
        ' "shares": [',
        "  [0.5, NaN],",
        "  [-1e-05, null]",
        " ],",
        ' "texts": [',
        '  "[1,",',
        '  "2]"',
        " ],",
        ' "names": [',
        '  "a  b"',
        " ]",
        "}",
    ]


def test_the_table_has_a_column_for_every_reading(tmp_path: Path) -> None:
    shares = {
        f"{title}_{name}": [0.9 + (3 * m + n) / 100, 0.5, 1.0]
        for m, title in enumerate(("within", "coverage", "fixed_coverage"))
        for n, name in enumerate(("half", "readable", "own"))
    }
    row = {"width": 0.5, "prompts": 20.0, "prompts_p10_p90": [15.0, 30.0], "reached": 0.25, "fixed_reached": 0.75}
    heads, _, cells = (
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in page.enough_table({"m": {"population": 50, "rows": [{**row, **shares}]}})
    )
    assert dict(zip(heads, cells, strict=True)) == {
        "model (population)": "m (50)",
        "until": "±0.5",
        "prompts (10 to 90 %)": "20 (15 to 30)",
        "reached": "25%",
        "half ± width": "90.0% (50% to 100%)",
        "readable ± width": "91.0% (50% to 100%)",
        "own ± width": "92.0% (50% to 100%)",
        "half's interval": "93.0%",
        "readable's interval": "94.0%",
        "own's interval": "95.0%",
        "40: reached": "75%",
        "40: half": "96.0%",
        "40: readable": "97.0%",
        "40: own": "98.0%",
    }


def stored(name: str) -> Any:
    return json.loads((command.RESULTS / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("model", command.PROMPTS)
def test_what_was_simulated_are_the_stored_readings(model: str) -> None:
    readings, rows = stored(f"readings_{model}"), stored(f"enough_{model}")
    population = Readings.of_stored(readings)
    assert (rows["population"], rows["n_blocks"]) == (population.prompts, readings["n_blocks"])
    assert population.half.shares.shape == (population.prompts, readings["n_blocks"] + 1)
    assert ((population.values > 0) & (population.values < readings["n_blocks"])).all()


@pytest.mark.thorough
def test_the_simulation_gives_what_is_stored() -> None:
    row = Simulation().run(Readings.of_stored(stored("readings_depth_6")), 0.5)
    expected = stored("enough_depth_6")["rows"][0]
    assert row.keys() == expected.keys()
    for name, value in expected.items():
        # rounding of a processor may decide a draw or two of four hundred
        assert row[name] == pytest.approx(value, abs=0.05 if name == "prompts" else 0.006), name
