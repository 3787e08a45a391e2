from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from support.compared import a_run
from support.synthetic import replaced, without
from support.synthetic_tokens import complete_run

from bathyscope.errors import OptionError
from bathyscope.pages.comparison.side_by_side import draw_differences, side_by_side
from bathyscope.pages.figures.kind import Panel, draw_panel
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.files.export import save_side_by_side
from bathyscope.runs.run import Run

MAPS = ("skip", "direct", "erasure", "integrated_gradients")
ONE = FigureOptions(prompts_shown=1)


def model(L: int, name: str, **options: int) -> Run:
    run = complete_run(L=L, prompts=3, tokens=8, model=name, **options)
    return without(run, *(measure for measure in run.measures if measure not in MAPS))


RUNS = [model(3, "org/small"), model(6, "org/large", seed=1)]


def maps(panel: Panel) -> list[Axes]:
    return [ax for ax in draw_panel(panel).axes if ax.get_images()]


def test_every_map_and_every_line_has_a_panel() -> None:
    found = {kind: [panel.name for panel in drawing.panels] for kind, drawing in side_by_side(RUNS, ONE).items()}
    assert found == {
        "skip": ["all", "future", "influence_all", "influence_future", "output_all", "output_future"],
        "direct": ["all", "future", "influence_all", "influence_future"],
        "erasure": ["effect_1"],
        "integrated_gradients": ["block_1", "attention_1", "mlp_1", "completeness"],
    }


def test_maps_are_the_models_own_in_one_range_of_colours() -> None:
    shown = maps(side_by_side(RUNS)["skip"].panels[0])
    assert [ax.get_title(loc="left") for ax in shown] == ["small", "large"]
    highest = 0.0
    for ax, run, L in zip(shown, RUNS, (3, 6)):
        values = np.ma.asarray(ax.get_images()[0].get_array())
        upper = np.triu(np.ones((L, L), dtype=bool), 1)
        effect = run["skip"]["effect_all"].values[:, 0, 0].mean(0)
        np.testing.assert_array_equal(np.ma.getmaskarray(values), ~upper)
        np.testing.assert_allclose(values[upper], effect[upper])
        highest = max(highest, effect[upper].max())
    assert {ax.get_images()[0].get_clim() for ax in shown} == {(0.0, highest)}


def test_one_colour_bar_with_label_and_unit() -> None:
    figure = draw_panel(side_by_side(RUNS)["skip"].panels[0])
    (label,) = [ax.get_xlabel() for ax in figure.axes if ax.get_xlabel().startswith("relative change")]
    assert "dimensionless, linear scale; mean over tokens and prompts" in label


def test_each_model_keeps_its_own_tokens() -> None:
    shown = maps(side_by_side(RUNS, ONE)["erasure"].panels[0])
    for ax, run in zip(shown, RUNS):
        count = int(run["erasure"]["n_tokens"][1]) - 1
        texts = [label.get_text() for label in ax.get_yticklabels()]
        assert (len(texts), texts[0]) == (count, "␣spouse")


def test_signed_maps_stay_symmetric() -> None:
    low, high = maps(side_by_side(RUNS, ONE)["integrated_gradients"].panels[0])[0].get_images()[0].get_clim()
    assert low == -high < 0


def test_prompts_of_other_data_are_not_matched() -> None:
    data = RUNS[1]["erasure"]
    other = data.assign_coords(dataset=("prompt", np.full(3, "another", dtype=object)))
    assert "erasure" not in side_by_side([RUNS[0], replaced(RUNS[1], "erasure", other)])


def test_runs_without_the_measure_are_left_out() -> None:
    runs = [*RUNS, without(model(4, "org/middle"), "skip")]
    found = side_by_side(runs)
    assert len(maps(found["skip"].panels[0])) == 2
    assert len(maps(found["direct"].panels[0])) == 3


def test_same_model_twice_is_told_apart() -> None:
    titles = [ax.get_title(loc="left") for ax in maps(side_by_side([RUNS[0], RUNS[0]])["skip"].panels[0])]
    assert titles == ["small (1)", "small (2)"]


APART = [without(RUNS[0], *MAPS[1:]), without(RUNS[1], MAPS[0])]


@pytest.mark.parametrize("runs", [RUNS[:1], APART], ids=["one run", "other measures"])
def test_nothing_in_common_is_nothing(runs: list[Run], tmp_path: Path) -> None:
    assert side_by_side(runs) == {}
    assert save_side_by_side(runs, tmp_path) == []


def test_caption_tells_the_reduction() -> None:
    assert "p95 over tokens" in side_by_side(RUNS, FigureOptions(reduction="p95"))["skip"].note
    assert "over tokens" not in side_by_side(RUNS, FigureOptions())["erasure"].note


def test_files_are_written_one_per_kind(tmp_path: Path) -> None:
    runs = [without(run, "erasure", "integrated_gradients") for run in RUNS]
    written = save_side_by_side(runs, tmp_path / "new", ["png"])
    assert [path.name for path in written] == ["skip.png", "direct.png"]
    assert sorted(os.listdir(tmp_path / "new")) == ["direct.png", "skip.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written)
    with pytest.raises(OptionError, match=r"Figure format .jpg. is unknown; allowed: png, svg, pdf. Did you mean"):
        save_side_by_side(runs, tmp_path, ["jpg"])


def test_differences_are_those_from_the_first_run_under_the_names_given() -> None:
    """Curves that cross 2 of 10 blocks later, and no later."""
    runs = [a_run(), a_run(shift=0.2, model="example/other"), a_run(model="example/third")]
    found = draw_differences(runs, ["first", "second", "third"])
    assert not isinstance(found, str)
    later, same = (panel.alt for panel in found.panels)
    assert later.startswith("Forest plot, second − first: paired, 6 prompts")
    assert same.startswith("Forest plot, third − first: paired, 6 prompts")
    assert re.findall(r"KL, interpolated ([+−-]?[\d.]+)", later) == ["+0.200"]
    assert float(re.findall(r"KL, interpolated ([+−-]?[\d.]+)", same)[0]) == 0
