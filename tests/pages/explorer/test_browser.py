"""The page in a real browser: silent, alone, legible, reachable by keyboard, true to the run, harmless."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import FigureBase
from support.browser import Opened, Show, opened
from support.compared import a_run
from support.explored import LENGTHS
from support.synthetic import replaced, synthetic_run, without
from support.synthetic_tokens import complete_run, with_tokens

import bathyscope
from bathyscope.pages.comparison.side_by_side import draw_differences
from bathyscope.pages.figures.kind import Panel
from bathyscope.pages.figures.kit import legend, style
from bathyscope.pages.figures.svg import inline_svg
from bathyscope.runs.run import Run

_FOCUSED = """(() => {
  const at = document.activeElement;
  const place = at.getAttribute('role') === 'option' ? 'word' : at.className;
  return place + '/' + (at.getAttribute('aria-label') || at.textContent.slice(0, 24));
})()"""


_UNSEEN = "[...document.querySelectorAll('.panel svg')].filter(svg => !svg.checkVisibility()).length"


@pytest.fixture(scope="module")
def full() -> Run:
    """12 blocks, every measure."""
    return with_tokens(complete_run(L=12, prompts=4, tokens=16))


@pytest.fixture(scope="module")
def full_page(full: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bathyscope.report([full], tmp_path_factory.mktemp("full") / "page.html")


HUB_NAMES = (
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B-base",
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B-Instruct",
    "/data/models/checkpoints/depth_6",
)


@pytest.fixture(scope="module")
def several_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs with long names."""
    runs = [without(synthetic_run(6 + n, 3, model=name), "repeat", "swap", "drop") for n, name in enumerate(HUB_NAMES)]
    return bathyscope.report(runs, tmp_path_factory.mktemp("several") / "page.html")


@pytest.fixture
def chosen(look: Show, page: Path) -> Opened:
    """The page with all unfolded and a block and a token chosen; for who changes its width and medium alone."""
    return look(page, unfolded=True, hash_="#block=2&token=5&boundary=3")


@pytest.fixture
def whole(look: Show, full_page: Path) -> Opened:
    """The page of every measure with all unfolded; for who changes its width and medium alone."""
    return look(full_page, unfolded=True)


def assert_legible(one: Opened, width: int) -> None:
    one.page.set_viewport_size({"width": width, "height": 800})
    one.page.wait_for_timeout(200)
    assert one.page.evaluate(_UNSEEN) == 0
    assert one.geometry() == []
    assert one.page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "dark")])
def test_every_picture_is_legible(chosen: Opened, width: int, scheme: str) -> None:
    chosen.page.emulate_media(color_scheme=scheme)
    assert_legible(chosen, width)


@pytest.mark.parametrize("width", [1280, 400])
def test_pictures_of_every_measure_are_legible(whole: Opened, width: int) -> None:
    assert_legible(whole, width)


def test_pictures_of_several_runs_are_legible_on_a_telephone(show: Show, several_page: Path) -> None:
    one = show(several_page, width=400)
    one.unfold()
    assert one.geometry() == []
    assert one.page.evaluate("document.documentElement.scrollWidth") <= 400


def picture(names: tuple[str, ...], *, fixed: bool) -> str:
    """Three curves with their legend below: in two columns whatever the names, as it once was, or as it is now."""

    def draw(figure: FigureBase) -> None:
        ax = figure.subplots()
        handles = [ax.plot([0, 1], [0, number])[0] for number in range(len(names))]
        if fixed:
            figure.legend(handles, names, loc="outside lower center", ncols=2)  # type: ignore[call-arg]
        else:
            legend.draw_legend(figure, handles, names)

    return inline_svg(Panel("norms", draw, "three curves", (4.6, 3.2)), "norms")


def test_texts_that_were_once_cut_are_found(chromium: Any, tmp_path: Path) -> None:
    found = {}
    for fixed in (True, False):
        path = tmp_path / f"{fixed}.html"
        path.write_text(f"<meta charset=utf-8><div style='width: 40rem'>{picture(HUB_NAMES, fixed=fixed)}</div>")
        with opened(chromium, path) as one:
            found[fixed] = one.geometry()
    assert sorted(found[True]) == sorted(f"outside: {name}" for name in HUB_NAMES)
    assert found[False] == []


def test_differences_of_models_with_long_names_are_legible(chromium: Any, tmp_path: Path) -> None:
    names = ["DeepSeek-R1-Distill-Qwen-1.5B-base", "DeepSeek-R1-Distill-Qwen-14B-Instruct", "Llama-3.1-8B-" + "x" * 60]
    found = draw_differences([a_run(model=name, shift=0.1 * n) for n, name in enumerate(names)], names)
    assert not isinstance(found, str)
    drawn = "".join(inline_svg(panel, panel.name) for panel in found.panels)
    path = tmp_path / "page.html"
    path.write_text(f"<meta charset=utf-8><div style='width: 40rem'>{drawn}</div>", encoding="utf-8")
    with opened(chromium, path) as one:
        assert one.geometry() == []


def test_small_texts_and_texts_over_each_other_are_found(chromium: Any, tmp_path: Path) -> None:
    texts = (
        "<text x='10' y='30' font-size='12'>one</text><text x='16' y='32' font-size='12'>two</text>"
        "<text x='10' y='80' font-size='6'>three</text><text x='90' y='80' font-size='12'>four</text>"
    )
    path = tmp_path / "page.html"
    path.write_text(f"<meta charset=utf-8><svg width='200' height='100'>{texts}</svg>")
    with opened(chromium, path) as one:
        assert one.geometry() == ["small: three 6.0", "over each other: one | two"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(chosen: Opened, scheme: str) -> None:
    chosen.page.emulate_media(color_scheme=scheme)
    assert chosen.axe() == []


def test_a_keyboard_reaches_and_moves_everything(show: Show, page: Path, run: Run) -> None:
    one = show(page)
    keys, seen = one.page.keyboard, []
    for _ in range(60):
        keys.press("Tab")
        seen.append(one.page.evaluate(_FOCUSED))
        if "strip/" in seen[-1]:
            keys.press("ArrowRight")
            keys.press("ArrowRight")
        elif seen[-1].startswith("word/"):
            keys.press("ArrowRight")
        elif "Lens grid" in seen[-1] and not seen[-1].startswith("grid/"):
            keys.press("Enter")
        elif seen[-1].startswith("grid/"):
            keys.press("ArrowUp")
            keys.press("ArrowRight")
            keys.press("ArrowDown")
            break
    assert seen[0] == "skip/Skip to the content"
    assert any(place.startswith("prompts") or "scroll prompts" in place for place in seen)
    chosen = dict(part.split("=") for part in one.page.evaluate("location.hash.slice(1)").split("&"))
    assert chosen == {"block": "1", "prompt": "0", "token": "2", "boundary": str(run.n_blocks - 1)}
    keys.press("Escape")
    assert "token" not in one.page.evaluate("location.hash")


def test_the_selection_survives_a_reload(show: Show, page: Path) -> None:
    one = show(page, hash_="#prompt=2")
    one.page.get_by_role("slider").focus()
    one.page.keyboard.press("End")
    one.page.locator("#token-7").click()
    before = one.page.evaluate("location.hash")
    assert before == "#block=4&prompt=2&token=7"
    told = one.page.locator(".about-word h3").inner_text()
    one.page.reload()
    one.settled()
    assert one.page.evaluate("location.hash") == before
    assert one.page.locator(".about-word h3").inner_text() == told
    assert one.page.locator("[aria-selected=true]").get_attribute("id") == "token-7"


@pytest.mark.parametrize("hash_", ["#block=99&prompt=77&token=5000&boundary=-3", "#block=x&run=9&token=1e3", "#=&%zz"])
def test_a_selection_that_there_is_not_is_none(show: Show, page: Path, hash_: str) -> None:
    one = show(page, hash_=hash_)
    assert one.page.locator(".strip + .told").inner_text() == "No block is chosen."
    assert one.page.locator("[aria-selected=true]").count() == 0


def close(text: str, value: float) -> bool:
    """Whether a number on the page, of three digits, is that of the run."""
    return abs(float(text) - value) <= 0.006 * abs(value) + 1e-9 if text != "–" else bool(np.isnan(value))


def test_numbers_are_those_of_the_run(show: Show, page: Path, run: Run) -> None:
    rng, tokens = np.random.default_rng(), run["tokens"]
    one = show(page, hash_="#boundary=0")
    added = (run["drop"].loss - run["drop"].baseline_loss).mean("prompt")
    for _ in range(6):
        prompt = int(rng.integers(4))
        token, boundary, block = int(rng.integers(LENGTHS[prompt])), int(rng.integers(6)), int(rng.integers(5))
        # the grid shows a word where it is predicted, which is at the token before it
        one.page.evaluate(f"location.hash = '#block={block}&boundary={boundary}&prompt={prompt}&token={token + 1}'")
        there = f"/, token {token + 1}, at boundary {boundary}$/.test(document.querySelector('.cell h4')?.textContent)"
        one.page.wait_for_function(there)
        own = tokens.isel(prompt=prompt, token=token)
        told = one.page.locator(".cell .told").inner_text()
        kl, entropy, *following = re.findall(r"[\d.]+(?:e[+-]\d+)?", told)
        assert close(kl, float(own.kl_final_lens[boundary])), told
        assert close(entropy, float(own.entropy[boundary])), told
        assert (len(following) == 0) == bool(own.next_probability.isnull()[boundary])
        if following:
            assert close(following[0], float(own.next_probability[boundary])), told
        rows = one.page.locator(".best tr").all_inner_texts()
        pieces = dict(zip(tokens.id.values.tolist(), tokens.piece.values.tolist()))
        for row, number, probability in zip(rows, own.top_id[boundary].values, own.top_probability[boundary].values):
            word, share = row.split("\t")
            assert word.replace("␣", " ") == pieces[int(number)]
            assert float(share.removesuffix(" %")) == pytest.approx(100 * float(probability), abs=0.051)
        strip = one.page.locator(".strip + .told").inner_text()
        assert close(re.findall(r"without the block (\S+)", strip)[0], float(added[block])), strip
        if following:
            label = one.page.locator("[role=img][aria-label^='Loss added']").get_attribute("aria-label")
            said = re.findall(rf"block {block} (\S+?)(?:,|$)", label)
            assert close(said[0], float(own.added_loss[block])), label
    listed = one.page.locator(".prompts tbody tr").all_inner_texts()
    assert [int(row.split("\t")[1]) for row in listed] == list(LENGTHS)


def costing(run: Run, costs: list[float]) -> Run:
    """The run whose blocks add this to the loss, of every prompt and token."""
    drop, tokens = run["drop"].copy(deep=True), run["tokens"].copy(deep=True)
    drop["loss"][:] = drop["baseline_loss"].values[:, None] + np.array(costs)
    tokens["added_loss"] = xr.zeros_like(tokens["added_loss"]) + xr.DataArray(costs, dims="dropped")
    return replaced(replaced(run, "drop", drop), "tokens", tokens)


def test_small_costs_can_be_read_beside_a_large_one(show: Show, run: Run, tmp_path: Path) -> None:
    """Block 0 costs 3.5 and the others a twentieth or less, of the text and of a single token."""
    kept = without(run, *(name for name in run if name not in ("drop", "tokens", "lens")))
    costs = [3.5, 0.05, -0.1, 0.15, 0.08]
    one = show(bathyscope.report([costing(kept, costs)], tmp_path / "page.html"), hash_="#token=3&boundary=2")
    for picture in (".strip svg", "[role=img][aria-label^='Loss added'] svg"):
        bars = f"[...document.querySelector({json.dumps(picture)}).querySelectorAll('g[aria-label=bar] rect')]"
        heights = one.page.evaluate(f"{bars}.map(bar => Number(bar.getAttribute('height')))")
        assert len(heights) == len(costs)
        assert heights[0] == max(heights)
        assert min(heights) > 8, picture
    assert one.geometry() == []


def test_cheap_blocks_have_a_mark_and_not_a_colour_alone(show: Show, run: Run, tmp_path: Path) -> None:
    """Two of five, whose intervals end below what the answer calls cheap."""
    kept = without(run, *(name for name in run if name not in ("drop", "tokens", "lens", "residual")))
    one = show(bathyscope.report([costing(kept, [0.5, 0.02, 0.3, 0.06, -0.01])], tmp_path / "page.html"))
    lefts = """which => [...document.querySelectorAll(`.strip g[aria-label=${which}] > *`)]
      .map(one => one.getBoundingClientRect().x)"""
    marks, bars = (one.page.evaluate(lefts, which) for which in ("dot", "bar"))
    beneath = [sum(left <= mark for left in bars) - 1 for mark in marks]
    assert beneath == [1, 4]
    note = one.page.locator(".strip ~ .note")
    assert "Green under a diamond: costs at most 0.05 nats" in note.inner_text()
    one.page.get_by_label("Show").select_option(index=1)
    assert one.page.evaluate(lefts, "dot") == []
    assert "diamond" not in note.inner_text()


def test_a_picture_that_is_saved_looks_as_it_does_on_the_page(show: Show, chromium: Any, page: Path) -> None:
    """In light colours, on its own: nothing that the page's style sheet said of it is missing."""
    one = show(page, color_scheme="dark")
    one.unfold()
    with one.page.expect_download() as download:
        one.page.get_by_role("button", name="Save as SVG").first.click()
    saved = Path(download.value.path()).read_text(encoding="utf-8")
    assert "var(" not in saved
    own = page.parent / "saved.svg"
    own.write_text(saved, encoding="utf-8")
    looks = """svg => ['font-family', 'image-rendering', 'stroke-linejoin'].map(name =>
      getComputedStyle(svg.querySelector(name === 'font-family' ? 'text' : 'use')).getPropertyValue(name))"""
    wanted = one.page.locator(".panel svg").first.evaluate(looks.replace("image-rendering", "text-anchor"))
    with opened(chromium, own) as alone:
        found = alone.page.locator("svg").evaluate(looks)
        assert alone.geometry() == []
    assert (found[0].replace('"', "'"), found[2]) == (wanted[0].replace('"', "'"), wanted[2])
    assert found[1] == "pixelated"


def test_an_outline_that_several_marks_share_is_drawn(chromium: Any, tmp_path: Path) -> None:
    """A mark is drawn where it is used, where no rule of its picture reaches it; hollow ones were not seen."""

    def draw(figure: FigureBase) -> None:
        ax = figure.subplots()
        for size in (6, 9):
            ax.plot([1], [size], "o", markersize=size, color=style.BLUE, markerfacecolor=style.PAPER)

    text = inline_svg(Panel("hollow", draw, "Two hollow marks.", (3.0, 2.0)), "f0-0")
    (own := tmp_path / "hollow.html").write_text(f"<body>{text}</body>", encoding="utf-8")
    with opened(chromium, own) as alone:
        seen = plt.imread(io.BytesIO(alone.page.locator("svg").screenshot()))[..., :3]
    wanted = np.array([int(style.BLUE[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    assert (np.abs(seen - wanted).max(-1) < 0.2).sum() > 20


def test_paper_is_light_where_the_screen_is_dark(show: Show, page: Path) -> None:
    one = show(page, color_scheme="dark", hash_="#token=5&boundary=3")
    ground = "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"

    def lightness() -> float:
        return float(plt.imread(io.BytesIO(one.page.locator(".grid canvas").screenshot()))[..., :3].mean())

    assert one.page.evaluate(ground) == ["rgb(21, 24, 29)", "rgb(230, 233, 238)"]
    assert lightness() < 0.4
    one.page.emulate_media(media="print", color_scheme="dark")
    one.page.wait_for_timeout(100)
    assert one.page.evaluate(ground) == ["rgb(254, 254, 254)", "rgb(32, 36, 43)"]
    assert lightness() > 0.6


def test_maps_of_tokens_say_why_they_are_not_there_and_have_colours_of_their_own(
    show: Show, full_page: Path, full: Run
) -> None:
    opened = show(full_page, hash_="#prompt=1")
    maps = opened.page.locator(".map")
    heads = [one for one in maps.all_inner_texts() if one.startswith(("erasure", "integrated"))]
    assert len(heads) == 4
    assert all("No map: each prompt has its own tokens, so there is no mean over prompts" in one for one in heads)
    mean = next(one for one in maps.all_inner_texts() if one.startswith("skip: all tokens"))
    assert mean.endswith("mean over 4 prompts")
    opened.page.locator("[aria-labelledby=view-maps] select").first.select_option(label="the chosen prompt")
    texts = {one.split("\n")[0]: one for one in maps.all_inner_texts()}
    largest = {"erasure": full["erasure"].effect}
    for site in ("block", "attention", "mlp"):
        largest[f"integrated gradients, {site}"] = full["integrated_gradients"].attribution.sel(site=site)
    for label, values in largest.items():
        most = float(np.nanmax(np.abs(values.isel(prompt=1).values)))
        found = re.search(r"to ([\d.e-]+)$", texts[label].strip())
        assert found, texts[label]
        assert close(found[1], most), label
    opened.page.evaluate("location.hash = '#prompt=0'")
    opened.page.wait_for_function("document.querySelectorAll('.map canvas').length === 4")
    absent = [one for one in maps.all_inner_texts() if "No map: not there for this prompt" in one]
    assert len(absent) == 4
    assert all("There: p1, p2, p3." in one for one in absent)


def test_prompts_are_searched_sorted_and_sifted(show: Show, page: Path) -> None:
    one = show(page)
    rows = one.page.locator(".prompts tbody tr")
    one.page.get_by_label("Search").fill("PROMPT 3")
    assert rows.count() == 1
    one.page.get_by_label("Search").fill("")
    one.page.get_by_role("button", name="tokens", exact=True).click()
    assert [int(row.split("\t")[1]) for row in rows.all_inner_texts()] == sorted(LENGTHS, reverse=True)
    one.page.get_by_label("kind").select_option(label="short")
    assert rows.count() == 2


def test_hostile_text_is_text(look: Show, page: Path) -> None:
    one = look(page)
    assert one.page.title() != "taken"
    assert one.page.locator("img").count() == 0
    assert "<script>document.title='taken'</script>" in one.page.locator(".prompts tbody").inner_text()
    content = one.page.locator("body").inner_text()
    assert "\u202e" not in content
    assert "\x07" not in content
    assert max(len(text) for text in one.page.locator(".prompts td").all_inner_texts()) <= 200


def test_print_has_what_is_open_and_the_estimates(show: Show, full_page: Path) -> None:
    """The answer, the views and the estimates in a few pages; a section that a reader opens is printed too."""
    one = show(full_page)
    seen = """[...document.querySelectorAll('.folded')].filter(section => section.checkVisibility())
      .map(section => section.innerText)"""
    folded = len(one.page.evaluate(seen))
    assert folded > 10
    one.page.emulate_media(media="print")
    printed = one.page.evaluate(seen)
    assert len(printed) == 1
    assert printed[0].startswith("Effective depth, estimates")
    assert "95% interval" in printed[0]
    assert count_sheets(one) <= 6
    one.page.evaluate("document.querySelectorAll('details.folded:not(.printed, .lens-grid)')[2].open = true")
    printed = one.page.evaluate(seen)
    assert len(printed) == 2
    assert one.page.evaluate(_UNSEEN) < one.page.locator(".panel svg").count()


def count_sheets(one: Opened) -> int:
    return len(re.findall(rb"/Type /Page\b", one.page.pdf(prefer_css_page_size=True)))


def test_pictures_stand_side_by_side_where_there_is_room(chosen: Opened) -> None:
    places = chosen.page.evaluate(
        """[...document.querySelectorAll('.panels')].map(all => [...all.querySelectorAll('.panel:not(.wide)')])
        .filter(own => own.length > 1).map(own => own.slice(0, 2).map(panel => panel.getBoundingClientRect()))
        .map(([a, b]) => [a.top - b.top, b.left - a.right])"""
    )
    assert places
    assert all(down == 0 and beside >= 0 for down, beside in places), places


_LETTERS = """which => [...document.querySelectorAll(`${which} svg text`)].map(text =>
  parseFloat(getComputedStyle(text).fontSize) * Math.hypot(text.getScreenCTM().a, text.getScreenCTM().b))"""


def test_letters_of_a_printed_page_are_large_enough(chosen: Opened) -> None:
    """Pictures stand one under another, and the widest on sheets of their own across: 8 px of 96 to the inch."""
    chosen.page.emulate_media(media="print")
    # an A4 sheet is 210 × 297 mm; its margins are the style sheet's
    for which, millimetres in ((".panel:not(.sheet)", 210 - 24), (".panel.sheet", 297 - 20)):
        chosen.page.set_viewport_size({"width": int(millimetres / 25.4 * 96), "height": 700})
        sizes = chosen.page.evaluate(_LETTERS, which)
        assert sizes
        assert min(sizes) >= 8, which
    sheets = set(re.findall(rb"/MediaBox \[0 0 (\d+)[\d.]* (\d+)", chosen.page.pdf(prefer_css_page_size=True)))
    assert {int(width) > int(height) for width, height in sheets} == {True, False}


def test_tables_of_a_printed_page_end_on_the_paper(whole: Opened) -> None:
    """Those of many columns on sheets of their own across; those that no sheet holds say so in place of being cut."""
    whole.page.emulate_media(media="print")
    beyond = """([which, sheet]) => [...document.querySelectorAll(which)].map(table => table.getBoundingClientRect())
      .filter(box => box.width).map(box => Math.round(box.right - sheet))"""
    for which, millimetres in ((".scroll:not(.many) table", 210 - 24), (".many table", 297 - 20)):
        width = int(millimetres / 25.4 * 96)
        whole.page.set_viewport_size({"width": width, "height": 700})
        found = whole.page.evaluate(beyond, [which, width])
        assert found
        assert max(found) <= 0, which
    assert whole.page.locator(".on-paper").count() == whole.page.locator(".endless").count()


def test_pictures_of_a_printed_page_fit_their_sheet(show: Show, several_page: Path) -> None:
    """None is cut or goes on on the next sheet, none is blown up, and a heading stands on the sheet of its picture."""
    one = show(several_page)
    one.unfold()
    one.page.emulate_media(media="print")
    boxes = """which => [...document.querySelectorAll(`${which} svg`)].map(svg =>
      [svg.getBoundingClientRect(), svg.viewBox.baseVal.width])
      .map(([own, drawn]) => [own.right, own.height, own.width / drawn])"""
    for which, across, down in ((".panel:not(.sheet)", 210 - 24, 297 - 24), (".panel.sheet", 297 - 20, 210 - 20)):
        width = across / 25.4 * 96
        one.page.set_viewport_size({"width": int(width), "height": 700})
        found = one.page.evaluate(boxes, which)
        assert found
        right, height, scale = map(max, zip(*found))
        assert right <= width, which
        assert height <= down / 25.4 * 96, which
        assert scale <= 2, which
    sheets = """[...document.querySelectorAll('.folded > summary')].map(one => [
      getComputedStyle(one).page, getComputedStyle(one.parentElement.querySelector('.panel, table')).page])"""
    headed = [tuple(pair) for pair in one.page.evaluate(sheets)]
    assert all(heading == first for heading, first in headed), headed
    assert {heading for heading, _ in headed} == {"auto", "wide"}


def test_paper_leaves_out_what_a_reader_may_click(look: Show, page: Path) -> None:
    one = look(page)
    words = "document.querySelector('#explorer').innerText.match(/choose|click/gi)"
    assert one.page.evaluate(words)
    one.page.emulate_media(media="print")
    assert one.page.evaluate(words) is None


def test_a_table_that_no_paper_holds_says_so(show: Show, tmp_path: Path) -> None:
    run = synthetic_run(3, 2)
    kept = without(run, *(name for name in run if name != "drop"))
    labels = {f"label_{number}": ("prompt", ["a", "b"]) for number in range(30)}
    labelled = replaced(kept, "drop", kept["drop"].assign_coords(labels))
    one = show(bathyscope.report([labelled], tmp_path / "page.html"))
    one.unfold()
    said, table = one.page.locator(".on-paper"), one.page.locator(".endless table")
    assert (said.is_visible(), table.is_visible()) == (False, True)
    one.page.emulate_media(media="print")
    assert (said.is_visible(), table.is_visible()) == (True, False)
    assert "33 columns" in said.inner_text()


def test_without_scripts_the_answer_and_all_sections_are_there(chromium: Any, page: Path) -> None:
    with opened(chromium, page, java_script_enabled=False) as one:
        assert "need JavaScript" in one.page.locator("#explorer").inner_text()
        assert one.page.locator(".profile .headline").is_visible()
        one.page.locator(".folded > summary").nth(2).click()
        assert one.page.locator(".folded svg").first.count() == 1


def test_headings_are_in_order(look: Show, page: Path) -> None:
    levels = look(page).page.evaluate(
        "[...document.querySelectorAll('h1, h2, h3, h4')].map(head => Number(head.tagName[1]))"
    )
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def large() -> Run:
    """80 blocks and 200 prompts, of which 16 have tokens."""
    run = synthetic_run(80, 200)
    return with_tokens(without(run, *(name for name in run if name not in ("drop", "lens", "skip"))))


RUNS: dict[str, Callable[[], Run]] = {
    "80 blocks": large,
    "one block": lambda: without(synthetic_run(1, 3), "repeat", "swap", "effective_depth"),
    "one prompt": lambda: without(synthetic_run(3, 1), "repeat", "effective_depth"),
    "residual alone": lambda: without(
        synthetic_run(3, 2), *(name for name in synthetic_run(3, 2) if name != "residual")
    ),
}


@pytest.mark.parametrize("which", RUNS)
def test_every_kind_of_run_has_its_page(show: Show, tmp_path: Path, which: str) -> None:
    one = show(bathyscope.report([RUNS[which]()], tmp_path / "page.html"), width=400)
    one.page.wait_for_timeout(100)
    assert one.geometry() == []
    if which != "residual alone":
        one.page.get_by_role("slider").focus()
        one.page.keyboard.press("End")
        last = {"80 blocks": 79, "one block": 0}.get(which, 2)
        assert one.page.locator(".strip + .told").inner_text().startswith(f"Block {last}: ")


def test_several_runs_are_switched(show: Show, run: Run, tmp_path: Path) -> None:
    kept = without(run, *(name for name in run if name not in ("drop", "lens", "tokens")))
    other = synthetic_run(3, 2, model="other")
    other = without(other, *(name for name in other if name != "drop"))
    one = show(bathyscope.report([kept, other], tmp_path / "page.html"))
    assert one.page.locator("#token-3").count() == 1
    one.page.locator("#explorer > label select").select_option(index=1)
    one.page.wait_for_selector("#token-3", state="detached")
    assert one.page.evaluate("location.hash").startswith("#run=1")
    assert one.page.locator(".prompts tbody tr").count() == 2


_MEGABYTE = 1_000_000
_CELL = 25
"""Bytes for a token at a boundary."""


def weights(page: Path) -> dict[str, int]:
    """Bytes of a whole page, and of the parts of it that grow with what was measured."""
    text = page.read_text(encoding="utf-8")
    parts = {
        "packed": r'<script type="application/x-bathyscope" [^>]*>[^<]*',
        "tables": r"<summary>The numbers as a table</summary>.*?</details>",
        "maps": r'href="data:image/png;base64,[^"]*"',
        "pictures": r"<svg.*?</svg>",
    }
    found = {name: sum(len(one.encode()) for one in re.findall(part, text, re.S)) for name, part in parts.items()}
    return {"whole": len(text.encode()), **found, "number": text.count("<svg ")}


def test_a_page_keeps_its_budget(run: Run, page: Path) -> None:
    """A megabyte, and 25 bytes for a token at a boundary, with all that stands in it."""
    cells = sum(LENGTHS[:4]) * (run.n_blocks + 1)
    assert weights(page)["whole"] <= _MEGABYTE + _CELL * cells


def test_a_page_with_every_measure_keeps_its_budget(full: Run, full_page: Path) -> None:
    """Some 75 pictures, which are to be seen without scripts; the profile has two layouts, of 8 kB each."""
    own = weights(full_page)
    assert own["number"] > 70
    data = own["tables"] + own["maps"] + _CELL * int(full["tokens"].n_tokens.sum()) * 13
    assert own["whole"] <= _MEGABYTE + data
    assert own["pictures"] / own["number"] < 8000


def test_a_page_of_many_tokens_is_soon_there(show: Show, tmp_path: Path) -> None:
    """48 blocks, 8 prompts of 256 tokens: two seconds of one thread from the first byte to views that answer."""
    kept = without(
        synthetic_run(48, 8), *(name for name in synthetic_run(48, 8) if name not in ("drop", "lens", "skip"))
    )
    path = bathyscope.report([with_tokens(kept, prompts=8, tokens=256)], tmp_path / "page.html")
    assert weights(path)["whole"] <= _MEGABYTE + _CELL * 8 * 256 * 49
    one = show(path)
    asked = one.page.context.new_cdp_session(one.page)
    asked.send("Performance.enable", {"timeDomain": "threadTicks"})
    one.page.reload()
    one.settled()
    one.page.get_by_role("slider").press("End")
    assert one.page.locator(".strip + .told").inner_text().startswith("Block 47: ")
    spent = {metric["name"]: metric["value"] for metric in asked.send("Performance.getMetrics")["metrics"]}
    assert 0 < spent["TaskDuration"] < 2


@pytest.mark.thorough
def test_a_page_of_a_deep_model_is_a_megabyte_and_its_data(tmp_path: Path) -> None:
    """48 blocks: tables, maps and what the views are drawn from are data."""
    own = weights(bathyscope.report([with_tokens(complete_run(L=48, prompts=4, tokens=16))], tmp_path / "page.html"))
    assert own["whole"] - own["packed"] - own["tables"] - own["maps"] <= _MEGABYTE


def test_signed_maps_are_dark_in_the_dark(whole: Opened) -> None:
    """Their middle is white, which on a dark page outshines everything."""
    lightness = {}
    for scheme in ("light", "dark"):
        whole.page.emulate_media(color_scheme=scheme)
        picture = whole.page.locator("[aria-label*='Attribution to'] svg .signed").first.screenshot()
        lightness[scheme] = float(plt.imread(io.BytesIO(picture))[..., :3].mean())
    assert lightness["light"] > 0.6
    assert lightness["dark"] < 0.4
