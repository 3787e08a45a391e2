from __future__ import annotations

import base64
import copy
import dataclasses
import functools
import hashlib
import os
import re
import tempfile
import zlib
from collections import Counter
from html.parser import HTMLParser
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import FigureBase
from support.synthetic import replaced, small_run, synthetic_run, without
from support.synthetic_tokens import complete_run

import bathyscope
from bathyscope.errors import OptionError, StoreError
from bathyscope.pages.explorer import assets
from bathyscope.pages.figures.kind import Drawing, FigureKind, Panel
from bathyscope.pages.figures.kit import block_effects
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.figures.registry import FIGURES, drawings
from bathyscope.pages.files.export import save_figures
from bathyscope.pages.files.panel_files import save_panels
from bathyscope.pages.head.answer import answer
from bathyscope.pages.page import report
from bathyscope.runs.names import run_names
from bathyscope.runs.run import Run

EVIL = "<script>alert('x')</script>"
RUN = complete_run(L=3, prompts=3, tokens=8)
ONE = FigureOptions(prompts_shown=1)


class Reader(HTMLParser):
    """Elements with their attributes, and the text outside of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._inside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._inside and tag == self._inside[-1]:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        if not self._inside:
            self.text.append(data)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.elements if name == tag]


@functools.cache
def whole_page() -> str:
    return rendered([RUN], options=ONE)


def rendered(runs: list[Run], **options: object) -> str:
    with tempfile.TemporaryDirectory() as folder:
        return report(runs, Path(folder) / "page.html", **options).read_text(encoding="utf-8")  # type: ignore[arg-type]


def loads_from_elsewhere(text: str) -> list[str]:
    """Every reference that a browser would fetch."""
    found = []
    for tag, attrs in Reader(text).elements:
        for name in ("src", "href", "xlink:href", "data", "poster", "srcset", "action"):
            value = attrs.get(name) or ""
            if value and not value.startswith(("#", "data:")):
                found.append(f"{tag} {name}={value}")
    return found + re.findall(r"@import[^;]*|url\((?!#|data:)[^)]*\)", text)


def test_every_figure_is_on_the_page_with_text_for_who_cannot_see_it() -> None:
    page = Reader(whole_page())
    pictures = [attrs for attrs in page.named("div") if attrs.get("role") == "img"]
    # the profile has a picture for each width, which describe themselves
    profile = [attrs for attrs in page.named("svg") if attrs.get("role") == "img"]
    panels = sum(len(drawing.panels) for drawing in drawings(RUN, ONE).values())
    assert len(page.named("svg")) - len(profile) == len(pictures) == panels
    assert [len(attrs["aria-label"] or "") > 40 for attrs in profile] == [True, True]
    assert all(len(attrs["aria-label"] or "") > 40 for attrs in pictures)
    assert len(page.named("figure")) == len(page.named("figcaption")) == len(FIGURES)


def assert_only_own_scripts(page: Reader) -> None:
    """Data that no browser runs, a run each, the libraries as such data, and behind them one script."""
    *data, libraries, code = page.named("script")
    assert code == {}
    assert data
    assert all(attrs["type"] == "application/x-bathyscope" for attrs in data)
    assert libraries["type"] == "application/x-bathyscope-libraries"


def test_nothing_is_loaded_and_nothing_else_runs() -> None:
    assert loads_from_elsewhere(whole_page()) == []
    page = Reader(whole_page())
    assert_only_own_scripts(page)
    (policy,) = [a["content"] for a in page.named("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    own = whole_page().rpartition("<script>")[2].partition("</script>")[0].encode()
    (held,) = re.findall(r'<script type="application/x-bathyscope-libraries"[^>]*>([^<]*)</script>', whole_page())
    unpacked = zlib.decompress(base64.b64decode(held))
    names = [f"'sha256-{base64.b64encode(hashlib.sha256(one).digest()).decode()}'" for one in (own, unpacked)]
    assert policy == (
        f"default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; script-src {' '.join(names)}"
    )


def test_libraries_in_a_page_are_the_files_and_are_named() -> None:
    (held,) = [a for a in Reader(whole_page()).named("script") if "libraries" in (a.get("type") or "")]
    assert held["data-contents"] == "d3 7.9.2, ISC licence; @observablehq/plot 0.6.17, ISC licence"
    unpacked = zlib.decompress(base64.b64decode(assets.packed_libraries())).decode()
    folder = files("bathyscope.pages.explorer") / "vendor"
    for name in assets.LIBRARIES:
        assert (folder / name).read_text(encoding="utf-8") in unpacked


def test_ids_are_unique() -> None:
    ids = [attrs["id"] for _, attrs in Reader(whole_page()).elements if "id" in attrs]
    assert len(set(ids)) == len(ids)


def test_what_the_noise_floor_holds_depends_on_the_precision() -> None:
    assert "effects of that size are rounding" in " ".join(Reader(whole_page()).text)
    few = without(RUN, *(name for name in RUN.measures if name not in ("skip", "noise")))
    manifest = copy.deepcopy(dict(RUN.manifest))
    manifest["identity"]["dtype"] = "bfloat16"
    text = " ".join(" ".join(Reader(rendered([Run(few.tree, manifest)], options=ONE)).text).split())
    assert "effects of that size are rounding" not in text
    assert "In bfloat16 both round alike, but changed rows round differently" in text
    with pytest.warns(UserWarning, match="Of all prompts together"):
        some = few.select(prompts="0-1")
    text = " ".join(Reader(rendered([some], options=ONE)).text)
    assert "no measure of this run intervenes" not in text
    assert "No noise floor: it is known only for all prompts of a run together." in text


def test_means_lie_in_the_intervals_beside_them() -> None:
    """A mean of four digits beside ends of three, 11.48 (11.5 to 11.5), lay outside of its own interval."""
    run = small_run()
    kl = run["drop"].kl
    spread = np.random.default_rng(0).normal(11.483, 0.002, kl.shape)
    narrow = replaced(run, "drop", run["drop"].assign(kl=kl.copy(data=spread)))
    found = re.findall(r"(\d[\d.]*) \((\d[\d.]*) to (\d[\d.]*)\)", rendered([narrow]))
    assert [one for one in found if one[0].startswith("11.48")]
    assert [one for one in found if not float(one[1]) <= float(one[0]) <= float(one[2])] == []


def test_table_captions_noise_and_provenance_are_there() -> None:
    text = " ".join(" ".join(Reader(whole_page()).text).split())
    # how far to trust the run has its caption with the noise floor; the section of its figures what they are of
    assert text.count(RUN.caption()) == text.count(RUN.caption(noise=False)) == 1
    assert text.count("noise floor 3e-7 (skip)") == text.count("The noise floor is the difference") == 1
    assert "the mean cosine is positive at every block" in text
    for part in ("weight_hash", "ab" * 32, "measures.repeat.length", "versions.torch", "2.13.0", "p2"):
        assert part in text


@pytest.mark.parametrize("weighting", ["tokens", "prompts"])
@pytest.mark.parametrize(
    ("heading", "measure", "last", "curves"),
    [
        ("One block dropped", "drop", 1, {"KL (nats)": "kl", "agreement (1)": "top1_agreement"}),
        ("Logit lens", "lens", 0, {"KL(lens ‖ final) (nats)": "kl_lens_final", "entropy (bits)": "entropy"}),
    ],
)
def test_numbers_of_tables_are_those_of_the_picture_above(
    heading: str, measure: str, last: int, curves: dict[str, str], weighting: Literal["tokens", "prompts"]
) -> None:
    """Means over all tokens of all prompts, or over prompts where these were asked for, at every place."""
    run = without(RUN, *(name for name in RUN.measures if name != measure))
    text = rendered([run], options=FigureOptions(weighting=weighting))
    table = text.partition(f"<h3>{heading}</h3>")[2].partition("<summary>The numbers as a table</summary>")[2]
    headings, *rows = [
        re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)
        for row in re.findall(r"<tr>.*?</tr>", table.partition("</table>")[0])
    ]
    weights = RUN[measure]["n_tokens"].values - last if weighting == "tokens" else np.ones(RUN.identity.prompts)
    for said, variable in curves.items():
        (column,) = [n for n, told in enumerate(headings) if told.endswith(f": {said}")]
        wanted = weights @ RUN[measure][variable].values / weights.sum()
        assert [int(row[0]) for row in rows] == list(range(len(wanted)))
        np.testing.assert_allclose(
            [float(row[column].partition(" (")[0]) for row in rows], wanted, rtol=6e-4, atol=1e-12
        )


def test_text_of_users_is_escaped_everywhere() -> None:
    run = small_run(model=f"evil/{EVIL}", prompt_ids=[EVIL] + [f'"{i}&' for i in range(5)])
    data = run["effective_depth"].copy(deep=True)
    data["reason"][:] = EVIL
    text = rendered([replaced(run, "effective_depth", data)], title=f"title {EVIL}")
    page = Reader(text)
    assert_only_own_scripts(page)
    assert EVIL not in text
    # folders are left out of names, and this name looks like some
    assert f"{EVIL.rpartition('/')[2]} on synthetic" in "".join(page.text)
    assert f"evil/{EVIL}" in "".join(page.text)
    assert '"0&' in page.text


def test_tokens_are_escaped_everywhere(tmp_path: Path) -> None:
    data = RUN["erasure"].copy(deep=True)
    data["piece"].values[1, :3] = ["<b>x</b>", "</script>", "$&'"]
    run = replaced(without(RUN, *(name for name in RUN.measures if name != "erasure")), "erasure", data)
    text = report(run, tmp_path / "page.html", options=ONE).read_text(encoding="utf-8")
    page = Reader(text)
    assert page.named("b") == []
    told = "".join(attrs["aria-label"] or "" for attrs in page.named("div") if attrs.get("role") == "img")
    assert "<b>x</b> </script> $&' " in told
    drawn = [piece.strip() for piece in page.text]
    assert {"<b>x</b>", "</script>", "$&'"} <= set(drawn)


def test_wide_pictures_have_rows_of_their_own() -> None:
    run = complete_run(L=60, prompts=2, tokens=60)
    kept = without(run, *(name for name in run.measures if name != "erasure"))
    (picture,) = [attrs for attrs in Reader(rendered([kept])).named("div") if attrs.get("role") == "img"]
    assert picture["class"] == "panel wide sheet"
    width = re.match(r"--width: ([\d.]+)rem", picture["style"] or "")
    assert width is not None
    assert float(width[1]) > 40
    narrow = [
        attrs for attrs in Reader(whole_page()).named("div") if "loss of the lens" in (attrs.get("aria-label") or "")
    ]
    assert [attrs["class"] for attrs in narrow] == ["panel"]


def test_maps_of_several_models_stand_side_by_side() -> None:
    kept = [name for name in RUN.measures if name not in ("skip", "erasure")]
    runs = [without(complete_run(L=L, prompts=3, tokens=8, model=f"{EVIL}-{L}"), *kept) for L in (3, 5)]
    text = rendered(runs, options=ONE)
    page = Reader(text)
    assert EVIL not in text
    assert "Side by side" in page.text
    pictures = [attrs["aria-label"] or "" for attrs in page.named("div") if attrs.get("role") == "img"]
    grids = [label for label in pictures if label.startswith("2 heat maps in the same colours.")]
    assert [label.split(". ")[1] for label in grids] == [
        "Skipping one block: effect on all tokens",
        "Skipping one block: effect on later tokens",
        "Erasing one token: prompt p1",
    ]
    assert all(f"{name}: median" in label for name in run_names(runs) for label in grids)
    assert "Side by side" not in Reader(whole_page()).text


def test_several_runs_are_compared_and_linked() -> None:
    one, two = small_run(L=12), small_run(L=12, model="example/other")
    page = Reader(rendered([one, two, without(small_run(model="third"), "effective_depth")]))
    links = [attrs["href"] for attrs in page.named("a")]
    sections = [attrs["id"] for attrs in page.named("section") if "id" in attrs]
    runs = ["#run-1", "#run-2", "#run-3"]
    assert links == ["#main", "#compared", "#side-by-side", "#explorer", *runs]
    assert sections == ["compared", "side-by-side", "run-1", "run-2", "run-3"]
    text = " ".join(" ".join(page.text).split())
    row = re.search(r"Effective depth compared .*? KL (.*?) top-k", text)
    assert row is not None
    assert row[1] == "7 (6 to 8), 0.58 of L 7 (6 to 8), 0.58 of L –"


def test_why_runs_are_not_compared_is_said() -> None:
    text = " ".join(" ".join(Reader(rendered([small_run(), small_run(model="example/other")])).text).split())
    assert "No differences are drawn. model-12 lacks residual, lens, skip (it holds: drop, " in text


@pytest.mark.parametrize("count", [1, 2])
def test_no_level_of_headings_is_left_out(count: int) -> None:
    runs = [small_run(), small_run(model="example/other")][:count]
    levels = [int(name[1]) for name, _ in Reader(rendered(runs)).elements if re.fullmatch("h[1-6]", name)]
    assert levels[0] == levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_one_run_is_not_compared() -> None:
    assert "Effective depth compared" not in whole_page()


def test_light_dark_narrow_and_paper() -> None:
    text = whole_page()
    for rule in ("prefers-color-scheme: dark", "@media print", "color-scheme: light dark"):
        assert rule in text
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in Reader(text).named("meta")


def test_options_that_there_are_not_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"report\(\): got an unexpected .*'tittle'\. Did you mean 'title'\?"):
        report([small_run()], tmp_path / "page.html", tittle="x")  # type: ignore[call-arg]
    assert not os.listdir(tmp_path)


def test_single_run_needs_no_list(tmp_path: Path) -> None:
    path = report(small_run(), tmp_path / "page.html")
    assert path == tmp_path / "page.html"
    assert path.read_text(encoding="utf-8") == rendered([small_run()])


def test_folder_is_made_and_nothing_else_is_left(tmp_path: Path) -> None:
    report([small_run()], str(tmp_path / "a" / "b" / "page.html"))
    assert os.listdir(tmp_path / "a" / "b") == ["page.html"]


def test_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "page.html").mkdir()
    with pytest.raises(StoreError, match=r"Cannot write '.*page.html': .*Choose a folder that you can write to"):
        report([small_run()], tmp_path / "page.html")
    assert os.listdir(tmp_path) == ["page.html"]


def test_failed_write_keeps_the_old_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "page.html"
    report([small_run()], path)
    old = path.read_text()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left on device"):
        report([small_run()], path)
    assert path.read_text() == old
    assert os.listdir(tmp_path) == ["page.html"]


def test_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"at least one run, plan or repair; give a list such as \[run\]"):
        report([], tmp_path / "page.html")


def test_run_with_nothing_to_draw_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"Nothing to draw: the run holds noise\. Survey again with at least one of"):
        report([without(small_run(), "drop", "effective_depth")], tmp_path / "page.html")
    assert not os.listdir(tmp_path)


def test_depth_that_does_not_exist_leaves_the_table_and_its_reason() -> None:
    run = small_run()
    data = run["effective_depth"].copy(deep=True)
    data["depth"][:] = np.nan
    data["reason"][:] = "no crossing here"
    page = Reader(rendered([replaced(run, "effective_depth", data)]))
    assert len(page.named("figure")) == 1
    assert "interpolated; centre of mass: no crossing here." in "".join(page.text)


def test_a_page_of_several_runs_draws_everything_once_and_their_differences_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Differences stand before the curves side by side, the views and the single runs."""
    computed, drawn = Counter[tuple[str, int]](), Counter[tuple[str, int, str]]()

    def counted(kind: FigureKind) -> FigureKind:
        def make(run: Run, options: FigureOptions) -> Drawing:
            computed[kind.name, id(run)] += 1
            made = kind.make(run, options)
            return dataclasses.replace(
                made, panels=[watched(panel, (kind.name, id(run), panel.name)) for panel in made.panels]
            )

        return dataclasses.replace(kind, make=make)

    def watched(panel: Panel, key: tuple[str, int, str]) -> Panel:
        def draw(figure: FigureBase) -> None:
            drawn[key] += 1
            panel.draw(figure)

        return dataclasses.replace(panel, draw=draw)

    for name in FIGURES:
        monkeypatch.setitem(FIGURES, name, counted(FIGURES[name]))
    kept = ("skip", "residual", "lens", "erasure")
    runs = [complete_run(L=3, prompts=3, tokens=8, model=name) for name in ("example/one", "example/other")]
    runs = [without(run, *(name for name in run.measures if name not in kept)) for run in runs]
    page = report(runs, tmp_path / "page.html", options=ONE, names=["first", "second"])
    assert dict(computed) == {(name, id(run)): 1 for run in runs for name in kept}
    assert set(drawn.values()) == {1}
    assert len(drawn) == sum(len(drawing.panels) for run in runs for drawing in drawings(run, ONE).values())
    text = page.read_text(encoding="utf-8")
    places = [text.index(part) for part in ("Forest plot, second − first: ", 'id="explorer"', 'id="run-1"')]
    assert text.index('id="compared"') < places[0]
    assert places == sorted(places)


HOSTILE = "red\x1b[31m\x07 turned\u202eround <i>\n" + "long " * 2000


def test_text_that_acts_is_shown_as_escapes_and_cut() -> None:
    run = synthetic_run(3, prompts=6, prompt_ids=[HOSTILE, *(f"p{i}" for i in range(5))], model="half\udc80\x1b[0m")
    kept = without(run, *(name for name in run.measures if name not in ("skip", "drop")))
    label = {"mood": ("prompt", np.array([HOSTILE] * 6, dtype=object))}
    for name in kept.measures:
        kept = replaced(kept, name, kept[name].assign_coords(label))
    text = rendered([kept], options=ONE, title="half\udc80\x07")
    text = text.replace(assets.script(), "")
    assert not [letter for letter in text if not (letter.isprintable() or letter == "\n")]
    shown = r"red\x1b[31m\x07 turned\u202eround &lt;i&gt;\n"
    assert f"<td>{shown}long long" in text
    assert r"<title>half\udc80\x07</title>" in text
    assert r"half\udc80\x1b[0m on synthetic: 6 prompts" in text
    assert max(map(len, re.findall(r"<td>(.*?)</td>", text))) < 250
    assert len(text) < len(rendered([without(synthetic_run(3), *KEEP_OUT)], options=ONE)) + 20_000


KEEP_OUT = [name for name in synthetic_run(3).measures if name not in ("skip", "drop")]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([1], "page.html"), "Expected runs, not 1 of type int in a list."),
        ((None, "page.html"), "Expected runs, not None of type NoneType."),
        ((RUN, 3), "out must be the path of an HTML file, such as 'page.html', not 3 of type int"),
        ((RUN, "page.html", 3), "title takes a text; 3 given"),
        (
            (RUN, "page.PDF"),
            "out='page.PDF' is not the name of an HTML page; give one such as 'page.html'. Tables are printed "
            "(--format csv); for pictures",
        ),
        ((RUN, "prompts.txt"), "out='prompts.txt' is not the name of an HTML page"),
        ((RUN, "runs/qwen"), "out='runs/qwen' is not the name of an HTML page"),
    ],
)
def test_arguments_of_another_type_are_one_sentence(arguments: tuple[object, ...], words: str) -> None:
    with pytest.raises(OptionError, match=re.escape(words)):
        report(*arguments)  # type: ignore[arg-type]


def test_options_are_no_dict(tmp_path: Path) -> None:
    with pytest.raises(
        OptionError, match=r"options must be bathyscope.pages.FigureOptions\(...\) or None, not .* dict"
    ):
        report(RUN, tmp_path / "page.html", options={"band": "none"})  # type: ignore[arg-type]


def test_names_stand_wherever_runs_are_named() -> None:
    runs = [small_run(model="/home/somebody/models/one"), small_run(model="/home/somebody/models/two")]
    page = Reader(rendered(runs, names=["first", "second"]))
    shown = " ".join(" ".join(page.text).split())
    assert {"first", "second"} <= {text.strip() for text in page.text}
    own = shown.partition("Provenance")[0].replace("bathyscope survey /home/somebody", "")
    assert "/home/somebody" not in own
    with pytest.raises(OptionError, match=r"names=\['x'\] is not allowed. Give 2 different names, one for each run"):
        report(runs, "page.html", names=["x"])
    with pytest.raises(
        OptionError,
        match=r"names=\['x', 'y'\] is not allowed. Give one name, one for each run; plans and repairs take none",
    ):
        report(runs[:1], "page.html", names=["x", "y"])


def test_every_answer_has_a_name_of_its_own() -> None:
    """As regions of a page do, by which a screen reader goes."""
    one, other = small_run(model="own/one"), small_run(model="own/two")
    for runs, names in (([one], ["Depth profile"]), ([one, other], ["Depth profile of one", "Depth profile of two"])):
        assert re.findall(r'<section class="profile" aria-label="([^"]*)"', rendered(runs)) == names


def test_figures_of_some_variables_alone() -> None:
    run = small_run()
    page, whole = Reader(rendered([run], variables="kl")), Reader(rendered([run]))
    labels = [[own["aria-label"] for own in one.named("div") if own.get("role") == "img"] for one in (page, whole)]
    assert len(labels[0]) == 1
    assert labels[0] == [label for label in labels[1] if "KL" in str(label) and str(label).startswith("Line chart")]
    assert all(answer(run).cheap in "".join(one.text) for one in (page, whole))
    with pytest.raises(OptionError, match="No measure here has a variable 'klx'"):
        rendered([run], variables="klx")


def test_a_part_with_some_blocks_is_not_drawn_as_if_they_were_all(tmp_path: Path) -> None:
    """Rows of its maps would be counted from 0, and means over its blocks be called the model's."""
    part = RUN.select(blocks="1-2")
    for drawn in (
        lambda: report(part, tmp_path / "page.html"),
        lambda: bathyscope.plot(part, "skip.effect_all"),
        lambda: save_figures(part, tmp_path / "figures"),
        lambda: save_panels(part, tmp_path / "panels"),
        lambda: part.explore(),
    ):
        with pytest.raises(OptionError, match=r"has some of its blocks; draw the run .* --blocks 0-5, or run\.select"):
            drawn()
    assert not os.listdir(tmp_path)


def test_a_page_names_no_folder() -> None:
    """A title, a caption or a legend with /home/… in it tells nothing, breaks every line, and says whose disk it is."""
    run = small_run(model="/home/somebody/models/qwen")
    assert run.caption().startswith("qwen on synthetic:")
    text = rendered([run])
    assert "/home/somebody" not in text
    assert "qwen" in text.partition("Provenance")[2]


def test_a_page_computes_every_figure_and_every_map_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made: Counter[str] = Counter()
    averaged: Counter[str] = Counter()
    drawing, over_prompts = FigureKind.drawing, block_effects._reduce_prompts

    def counting(kind: FigureKind, *arguments: object) -> Drawing:
        made[kind.name] += 1
        return drawing(kind, *arguments)  # type: ignore[arg-type]

    def averaging(values: xr.DataArray, *arguments: Any) -> xr.DataArray:
        averaged[str(values.name)] += 1
        return over_prompts(values, *arguments)

    monkeypatch.setattr(FigureKind, "drawing", counting)
    monkeypatch.setattr(block_effects, "_reduce_prompts", averaging)
    run = without(RUN, *(name for name in RUN if name not in ("skip", "lens")))
    report([run], tmp_path / "page.html", options=ONE)
    assert made == {"skip": 1, "lens": 1}
    assert set(averaged.values()) == {1}
    assert {"effect_all", "effect_future"} <= set(averaged)
