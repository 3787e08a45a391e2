"""Single panels: in somebody's own axes, and as files with caption and numbers."""

from __future__ import annotations

import csv
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure
from support import waves
from support.artists import curve
from support.synthetic import synthetic_run, without

import bathyscope
from bathyscope.errors import OptionError
from bathyscope.pages.files.panel_files import save_panels

RUN = synthetic_run(4, 4, model="/home/somebody/models/qwen")


def test_a_panel_is_drawn_alone_or_in_the_callers_axes() -> None:
    alone = bathyscope.plot(RUN, "lens.kl", width=3.3)
    assert isinstance(alone, Figure)
    assert alone.get_size_inches()[0] == pytest.approx(3.3)
    whole, axes = plt.subplots(1, 2)
    artists = bathyscope.plot(RUN, "lens.kl", axes[1])
    assert list(whole.axes) == list(axes)
    assert whole._suptitle is None  # type: ignore[attr-defined]
    assert not whole.legends
    assert [*axes[1].lines, *axes[1].collections] == artists
    for ax in (alone.axes[0], axes[1]):
        _, y = curve(ax, "KL(lens ‖ final)")
        np.testing.assert_allclose(y, RUN["lens"].kl_lens_final.values.mean(0))
    plt.close(whole)


def test_curves_of_two_runs_are_named_after_both() -> None:
    other = synthetic_run(4, 3, model="/home/somebody/models/llama")
    (ax,) = bathyscope.plot([RUN, other], "lens.kl").axes
    labels = [line.get_label() for line in ax.lines if not str(line.get_label()).startswith("_")]
    curves = [f"KL({one})" for one in ("lens ‖ final", "final ‖ lens")]
    assert sorted(labels) == sorted(f"{name}, {curve}" for name in ("qwen", "llama") for curve in curves)


def test_the_folder_of_a_run_is_drawn_as_the_run(tmp_path: Path) -> None:
    prompts = [[5, 9, 7, 30, 44], [3, 8, 1, 22]]
    run = bathyscope.survey(waves.loaded("llama"), prompts, ["lens"], tmp_path / "run", progress=False)
    drawn = bathyscope.plot(str(tmp_path / "run"), "lens.kl")
    _, y = curve(drawn.axes[0], "KL(lens ‖ final)")
    np.testing.assert_allclose(y, run["lens"].kl_lens_final.values.mean(0))


def test_one_run_twice_is_no_two_runs(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"One run is given twice, which agrees with itself"):
        bathyscope.plot([RUN, RUN], "lens.kl")
    bathyscope.survey(waves.loaded("llama"), [[5, 9, 7, 30, 44]], ["lens"], tmp_path / "run", progress=False)
    with pytest.raises(OptionError, match=r"One run is given twice \('.*run'\)"):
        bathyscope.plot([bathyscope.open(tmp_path / "run"), tmp_path / "run"], "lens.kl")


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("lenz.kl", "This run has no figure 'lenz'.*Did you mean 'lens'.* Allowed: .* such as lens.kl"),
        ("lens.kll", "'lens.kll' is not a panel of this run; allowed: lens.kl, .*Did you mean 'lens.kl'"),
        ("lens", "'lens' has [0-9]+ panels; name one of them; allowed: lens.kl, "),
        ("tokens", "needs the measures lens and tokens; this run has .*Survey with"),
    ],
)
def test_what_there_is_not_is_refused(what: str, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        bathyscope.plot(RUN, what)


def test_axes_without_a_grid_keep_their_place() -> None:
    figure = plt.figure()
    ax = figure.add_axes((0.2, 0.2, 0.5, 0.5))
    bathyscope.plot(RUN, "lens.kl", ax)
    assert ax.get_position().bounds == pytest.approx((0.2, 0.2, 0.5, 0.5))
    plt.close(figure)


def test_panels_are_files_of_a_journals_width_with_caption_and_numbers(tmp_path: Path) -> None:
    run = without(RUN, *(name for name in RUN if name != "lens"))
    written = {path.name for path in save_panels(run, tmp_path, ["svg"])}
    assert {"lens.kl.svg", "lens.entropy.svg", "lens.txt", "lens.csv"} <= written
    picture = (tmp_path / "lens.kl.svg").read_text()
    assert 'width="237.6pt"' in picture  # 3.3 in
    assert "somebody" not in picture
    caption = (tmp_path / "lens.txt").read_text()
    assert caption.startswith("Logit lens: ")
    assert "qwen on" in caption
    rows = list(csv.DictReader((tmp_path / "lens.csv").open()))
    own = [float(row["mean"]) for row in rows if row["variable"] == "entropy"]
    np.testing.assert_allclose(own, run["lens"]["entropy"].values.mean(0))
    assert all(float(row["low"]) <= float(row["mean"]) <= float(row["high"]) for row in rows)


def test_a_figure_shows_itself_in_a_notebook_without_pyplot() -> None:
    """As a PNG of the size and resolution of a saved file."""
    figure = bathyscope.plot(RUN, "lens.kl", width=3.3)
    png = figure._repr_png_()
    assert png.startswith(b"\x89PNG")
    assert int.from_bytes(png[16:20], "big") == 160 * 3.3
