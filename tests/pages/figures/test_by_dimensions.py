"""Measures without a figure of their own get one by the dimensions of their variables."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from support.artists import bands, curve
from support.synthetic import small_run
from support.synthetic_tokens import complete_run, from_table

from bathyscope.errors import OptionError
from bathyscope.measures.registry import MEASURES
from bathyscope.pages.comparison.side_by_side import side_by_side
from bathyscope.pages.figures import registry
from bathyscope.pages.figures.by_dimensions import figure
from bathyscope.pages.figures.kind import draw_panel
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.figures.registry import drawings, figures_of
from bathyscope.pages.files.export import save_figures
from bathyscope.pages.page import report
from bathyscope.runs.run import Run

P, L, T = 4, 5, 7
RNG = np.random.default_rng(3)
LENGTHS = np.array([4, 7, 5, 6])


def run_with(model: str = "org/own", **variables: tuple[tuple[str, ...], np.ndarray]) -> Run:
    """A run whose measure ``wobble`` nobody knows."""
    base = small_run(L=L, prompts=P, model=model)
    coords = {
        "prompt_id": ("prompt", np.array([f"p{i}" for i in range(P)], dtype=object)),
        "n_tokens": ("prompt", LENGTHS),
        "dataset": ("prompt", np.array(["synthetic"] * P, dtype=object)),
        "block": np.arange(L),
        "boundary": np.arange(L + 1),
        "part": ["attention", "mlp"],
    }
    data = {
        name: xr.Variable(dims, values, {"long_name": f"the {name}", "units": "nats"})
        for name, (dims, values) in variables.items()
    }
    used = {dim for dims, _ in variables.values() for dim in dims}
    kept = {name: v for name, v in coords.items() if name in used or (isinstance(v, tuple) and "prompt" in used)}
    tree = {**{f"/{name}": base[name] for name in base.measures}, "/wobble": xr.Dataset(data, kept)}
    return Run(xr.DataTree.from_dict(tree), base.manifest)


def values(*sizes: int) -> np.ndarray:
    return RNG.uniform(0.5, 1.5, sizes)


@pytest.mark.parametrize(("place", "label"), [("block", "block (0-based index)"), ("boundary", "boundary (index")])
def test_a_place_in_depth_for_each_prompt_gives_a_line_with_its_band(place: str, label: str) -> None:
    array = values(P, L + (place == "boundary"))
    (panel,) = drawings(run_with(shift=(("prompt", place), array)))["wobble"].panels
    (ax,) = draw_panel(panel).axes
    (line,) = ax.get_lines()
    np.testing.assert_allclose(line.get_ydata(), array.mean(0))
    assert (ax.get_title(loc="left"), ax.get_ylabel()) == ("The shift", "shift (nats)")
    assert ax.get_xlabel().startswith(label)
    assert len(bands(ax)) == 1


def test_names_along_a_dimension_give_a_line_each() -> None:
    array = values(P, 2, L)
    (panel,) = drawings(run_with(shift=(("prompt", "part", "block"), array)))["wobble"].panels
    (ax,) = draw_panel(panel).axes
    for number, part in enumerate(("attention", "mlp")):
        np.testing.assert_allclose(curve(ax, part)[1], array[:, number].mean(0))


def test_two_places_in_depth_give_a_heat_map_of_the_mean() -> None:
    array = values(P, L, L)
    run = run_with(pull=(("prompt", "dropped", "block"), array))
    (panel,) = drawings(run)["wobble"].panels
    ax = draw_panel(panel).axes[0]
    np.testing.assert_allclose(np.ma.getdata(ax.get_images()[0].get_array()), array.mean(0))
    assert (ax.get_ylabel(), ax.get_xlabel()) == ("dropped block (0-based index)", "block (0-based index)")
    bar = ax.get_images()[0].colorbar.ax
    assert bar.get_xlabel() == "pull (nats), mean over prompts"
    assert "5 dropped blocks by 5 blocks" in panel.alt
    (panel,) = drawings(run, FigureOptions(weighting="tokens"))["wobble"].panels
    image = draw_panel(panel).axes[0].get_images()[0]
    np.testing.assert_allclose(np.ma.getdata(image.get_array()), np.tensordot(LENGTHS, array, 1) / LENGTHS.sum())
    assert image.colorbar.ax.get_xlabel() == "pull (nats), mean over tokens"


def test_a_number_for_each_prompt_gives_dots() -> None:
    array = values(P)
    (panel,) = drawings(run_with(score=(("prompt",), array)))["wobble"].panels
    (ax,) = draw_panel(panel).axes
    (dots,) = [line for line in ax.get_lines() if line.get_label() == "prompts"]
    np.testing.assert_array_equal(dots.get_xdata(), array)
    assert ax.get_xlabel() == "score (nats)"


def test_values_for_each_token_give_maps_of_the_first_prompts() -> None:
    array = values(P, L, T)
    array[np.arange(T)[None, None, :].repeat(P, 0).repeat(L, 1) >= LENGTHS[:, None, None]] = np.nan
    run = run_with(heat=(("prompt", "block", "token"), array))
    first, second = drawings(run, FigureOptions(prompts_shown=2))["wobble"].panels
    image = draw_panel(second).axes[0].get_images()[0]
    np.testing.assert_allclose(np.ma.getdata(image.get_array()), array[1].T)
    assert (first.name, second.name) == ("heat_prompt_0", "heat_prompt_1")


def test_listed_panels_have_their_names_and_curves_of_one_kind_are_together() -> None:
    one, other, third = values(P, L), values(P, L), values(P, L + 1)
    run = run_with(
        rise=(("prompt", "block"), one), fall=(("prompt", "block"), other), shift=(("prompt", "boundary"), third)
    )
    kind = figure("wobble", {"together": ("rise", "fall"), "alone": ("shift",), "mixed": ("rise", "shift")})
    together, alone, rise, shift = kind.panels(run, FigureOptions(weighting="prompts"))
    assert [panel.name for panel in (together, alone, rise, shift)] == ["together", "alone", "rise", "shift"]
    (ax,) = draw_panel(together).axes
    for label, array in (("The rise", one), ("The fall", other)):
        np.testing.assert_allclose(curve(ax, label)[1], array.mean(0))
    assert ax.get_ylabel() == "together (nats)"
    (ax,) = draw_panel(alone).axes
    np.testing.assert_allclose(ax.get_lines()[0].get_ydata(), third.mean(0))
    assert ax.get_title() == "The shift"


def test_a_listed_variable_that_is_missing_is_left_out() -> None:
    run = run_with(rise=(("prompt", "block"), values(P, L)))
    kind = figure("wobble", {"both": ("rise", "fall"), "none": ("fall",)})
    assert [panel.name for panel in kind.panels(run, FigureOptions())] == ["both"]
    assert not figure("wobble", {"none": ("fall",)}).drawable(run)


@pytest.mark.parametrize("name", MEASURES)
def test_every_measure_can_be_drawn_from_its_table_alone(name: str) -> None:
    coords = {
        "prompt_id": ("prompt", np.array(["p0", "p1"], dtype=object)),
        "dataset": ("prompt", np.array(["synthetic"] * 2, dtype=object)),
        "n_tokens": ("prompt", np.array([5, 7])),
        "piece": (("prompt", "token"), np.full((2, 7), "a", dtype=object)),
        "token": np.arange(7),
    }
    data = from_table(name, L, coords)
    assert data.data_vars
    base = small_run(L=L, prompts=2)
    run = Run(xr.DataTree.from_dict({f"/{name}": data}), base.manifest)
    table = MEASURES[name].table or {}
    panels = figure(name).panels(run, FigureOptions())
    shown = {variable for variable in data if any(panel.name.startswith(str(variable)) for panel in panels)}
    # one number is said in the caption, and what has a value for each token alone, or is deeper, has no picture
    small = {
        name for name, label in table.items() if len({*label.always} - {"prompt"}) == 1 and "token" not in label.always
    }
    assert small & set(data) <= shown


def test_a_caption_says_what_is_measured_and_by_which_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_with(rise=(("prompt", "block"), values(P, L)), fall=(("prompt", "block"), values(P, L)))
    for name in ("rise", "fall"):
        run["wobble"][name].attrs["formula"] = "‖c_l‖₂ / ‖h_l‖₂"
    drawing = figure("wobble", {"both": ("rise", "fall")}, "How far blocks sway.").drawing(run)
    assert drawing.note.startswith("How far blocks sway. The rise, the fall: ‖c_l‖₂ / ‖h_l‖₂. Lines: means over")
    only_fall = figure("wobble", {"one": ("fall", "gone")}).drawing(run)
    assert only_fall.note.startswith("Drawn by the dimensions of its variables. The fall: ‖c_l‖₂ / ‖h_l‖₂. Lines:")
    # a measure of the package that has no module of its own says what it declares
    monkeypatch.setattr(registry, "find_spec", lambda name: None if name.endswith(".gradient") else find_spec(name))
    note = registry._own_figures()["gradient"].drawing(complete_run()).note
    assert note.startswith(f"{MEASURES['gradient'].summary} Norm of the mean loss's gradient (mean over tokens): ‖∂(")


def test_a_single_number_is_said() -> None:
    drawing = drawings(run_with(total=((), np.array(2.5)), shift=(("block",), values(L))))["wobble"]
    assert "The total: 2.5 nats." in drawing.note
    assert [panel.name for panel in drawing.panels] == ["shift"]


def test_what_is_no_number_or_has_no_value_is_left_out() -> None:
    run = run_with(
        why=(("prompt",), np.array(["a", "b", "c", "d"])),
        none=(("prompt",), np.full(P, np.nan)),
        one=(("block",), values(L)),
    )
    assert [panel.name for panel in drawings(run)["wobble"].panels] == ["one"]


def test_it_has_its_place_on_the_page_in_files_and_beside_other_runs(tmp_path: Path) -> None:
    runs = [run_with(f"org/{name}", pull=(("prompt", "dropped", "block"), values(P, L, L))) for name in ("one", "two")]
    text = report(runs, tmp_path / "page.html").read_text(encoding="utf-8")
    assert len(re.findall(r"<h3[^>]*>Wobble</h3>", text)) == 3
    assert "2 heat maps in the same colours. The pull." in text
    save_figures(runs[0], tmp_path / "figures", ["svg"])
    assert "wobble.svg" in os.listdir(tmp_path / "figures")
    assert [panel.name for panel in side_by_side(runs)["wobble"].panels] == ["pull"]


def test_the_noise_floor_is_no_figure() -> None:
    assert list(figures_of(small_run())) == ["effective_depth", "drop"]
    with pytest.raises(OptionError, match="needs the measure 'wobble'"):
        figures_of(run_with(one=(("block",), values(L))))["wobble"].drawing(small_run())
