"""The picture of a profile: every mark at its place, every text inside and over no other, nothing in a name acts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from support.browser import browser, opened
from support.profiled import profiled_run
from support.synthetic import replaced

import bathyscope
from bathyscope.errors import OptionError
from bathyscope.pages.head import drawing, layouts
from bathyscope.pages.head.classes import COLOURS, DARK_COLOURS, DARK_LETTERS, LETTERS, class_of, write_cost
from bathyscope.pages.head.numbers import Profile, read_profile

SVG = "{http://www.w3.org/2000/svg}"
TILES = tuple(f"bp-cost{level}" for level in range(len(COLOURS)))
"""Class of the tiles by what a block costs."""
EVIL = "<script>alert(1)</script>\u202eabc\x07"


def parsed(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)


def texts(picture: ElementTree.Element) -> list[str]:
    return ["".join(text.itertext()) for text in picture.iter(f"{SVG}text")]


@pytest.mark.parametrize(("draw", "sizes"), [(drawing.wide, layouts.WIDE), (drawing.narrow, layouts.NARROW)])
def test_marks_points_and_tiles_are_at_their_places(draw: Any, sizes: layouts.ProfileLayout) -> None:
    profile = read_profile(profiled_run(12, readable=8.0, costs=np.linspace(0.01, 1.5, 12).tolist()))
    picture = parsed(draw(profile))

    def across(place: float) -> float:
        return sizes.left + sizes.inner * place / 12

    dots = [(float(dot.get("cx", "")), float(dot.get("cy", "")), dot.get("r")) for dot in picture.iter(f"{SVG}circle")]
    marks = sorted(x for x, _, radius in dots if radius == "5.5")
    assert marks == pytest.approx(sorted(across(mark.value) for mark in profile.marks), abs=0.06)
    points = [(x, y) for x, y, radius in dots if radius != "5.5"]
    assert [x for x, _ in points] == pytest.approx([across(place) for place in range(13)], abs=0.06)
    assert profile.share is not None
    assert profile.costs is not None
    foot, top = points[0][1], points[-1][1]
    heights = [(foot - y) / (foot - top) for _, y in points]
    assert heights == pytest.approx(list(profile.share.mean), abs=0.002)
    tiles = [tile for tile in picture.iter(f"{SVG}rect") if tile.get("class") in TILES][:12]
    assert [tile.get("class") for tile in tiles] == [TILES[class_of(loss)] for loss in profile.costs.mean]
    written = texts(picture)
    short = sizes is layouts.NARROW
    assert all(write_cost(loss, short=short) in written for loss in profile.costs.mean)


@pytest.mark.parametrize("blocks", [33, 126])
def test_many_blocks_are_bars_that_grow_with_the_loss(blocks: int) -> None:
    costs = np.geomspace(0.01, 8, blocks).tolist()
    picture = parsed(drawing.wide(read_profile(profiled_run(blocks, costs=costs))))
    bars = [bar for bar in picture.iter(f"{SVG}rect") if bar.get("class") in TILES and not bar.get("rx")]
    assert len(bars) == blocks
    heights = [float(bar.get("height", "")) for bar in bars]
    assert heights == sorted(heights)
    assert heights[-1] > 10 * heights[0]


def test_a_control_is_grey_and_over_its_own_depth() -> None:
    control = profiled_run(4, readable=3.0, measures=("lens",))
    profile = read_profile(profiled_run(8, controls={"untrained-0": control}))
    picture = parsed(drawing.wide(profile))
    (curve,) = [p for p in picture.iter(f"{SVG}path") if p.get("class") == "bp-muted-line" and "opacity" in p.attrib]
    places = [float(x) for x in re.findall(r"[ML]([\d.]+) ", curve.get("d", ""))]
    wide = layouts.WIDE
    assert places == pytest.approx([wide.left + wide.inner * place / 4 for place in range(5)], abs=0.06)
    assert "grey: 1 untrained, the same prompts" in " ".join(texts(picture))


@pytest.mark.parametrize("measures", [("lens",), ("drop",), ("skip",), ("lens", "skip"), ("lens", "drop")])
def test_what_is_missing_is_not_drawn(measures: tuple[str, ...]) -> None:
    profile = read_profile(profiled_run(measures=measures))
    written = " ".join(texts(parsed(drawing.alone(profile))))
    assert ("that have, and keep, their final prediction" in written) == ("lens" in measures)
    assert ("loss added" in written) == ("drop" in measures)
    assert ("Nothing to draw" in written) == (measures == ("skip",))


def test_nothing_in_a_name_acts() -> None:
    run = profiled_run(model=EVIL, dataset=EVIL)
    for text in (drawing.alone(read_profile(run)), bathyscope.badge(run), run._repr_html_(), bathyscope.card(run)):
        assert "<script" not in text
        assert "\u202e" not in text
        assert "\x07" not in text
    parsed(drawing.alone(read_profile(run)))


@pytest.mark.parametrize("blocks", [1, 12, 30, 126])
def test_a_badge_is_small_and_has_the_depths(blocks: int, tmp_path: Path) -> None:
    run = profiled_run(blocks, readable=0.6 * blocks)
    text = bathyscope.badge(run, tmp_path / "depth.svg")
    assert (tmp_path / "depth.svg").read_text(encoding="utf-8") == text
    assert len(text.encode()) < 2048
    profile = read_profile(run)
    (depth,) = (mark.value for mark in profile.marks if mark.name != "own")
    assert any(f"from {depth:.1f} of {blocks} block{'s' * (blocks > 1)}" in words for words in texts(parsed(text)))
    bars = re.findall(r"M[\d.]+ 0v-", text)
    assert len(bars) == blocks


@pytest.mark.parametrize("call", [bathyscope.badge, bathyscope.card])
def test_files_of_another_ending_and_empty_runs_are_refused(call: Any, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"is not the name of an? (SVG|Markdown) file"):
        call(profiled_run(), tmp_path / "depth.png")
    with pytest.raises(OptionError, match="needs the lens, skip or drop; this run has skip"):
        call(profiled_run(measures=("skip",)))


def variants() -> Iterator[tuple[str, Profile]]:
    for blocks in (1, 2, 12, 13, 30, 32, 33, 126):
        for readable in (0.05, 0.5, 0.99):
            run = profiled_run(blocks, readable=readable * blocks, spread=min(0.4, 0.01 * blocks))
            yield f"{blocks} blocks, depth {readable}", read_profile(run)
    controls = {
        f"{kind}-{seed}": profiled_run(12, readable=11 - seed, measures=("lens", "skip"))
        for kind in ("untrained", "shuffled_blocks")
        for seed in range(2)
    }
    yield "controls", read_profile(profiled_run(12, readable=10.9, effects=[0.0] * 10 + [1, 1], controls=controls))
    drop = profiled_run(12)["drop"].copy(deep=True)
    drop["loss"].values[:, 3:5] = np.nan
    yield "no loss of two blocks", read_profile(replaced(profiled_run(12), "drop", drop))
    yield "large", read_profile(profiled_run(12, costs=[250.0, -3.0] + [12.3] * 10))
    yield "lens alone", read_profile(profiled_run(12, measures=("lens",)))
    yield "drop alone", read_profile(profiled_run(40, measures=("drop",)))
    yield "names", read_profile(profiled_run(model="说" * 80, dataset="نص" * 60))


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as one:
        yield one


def test_every_text_is_inside_and_over_no_other(chromium: Any, tmp_path: Path) -> None:
    pictures = [
        f'<h6>{name}</h6><div style="width:{width}px">{draw(profile)}</div>'
        for name, profile in variants()
        for width, draw in ((1000, drawing.wide), (384, drawing.narrow), (1000, drawing.alone))
    ]
    path = tmp_path / "all.html"
    path.write_text(f"<!doctype html><meta charset=utf-8>{''.join(pictures)}", encoding="utf-8")
    with opened(chromium, path) as page:
        page.page.add_style_tag(content=".bp-narrow{display:block}")
        assert page.geometry() == []
        assert page.said == []


def test_a_picture_alone_follows_the_theme(chromium: Any, tmp_path: Path) -> None:
    path = tmp_path / "profile.svg"
    path.write_text(drawing.alone(read_profile(profiled_run())), encoding="utf-8")
    colours = {}
    for scheme in ("light", "dark"):
        with opened(chromium, path) as page:
            page.page.emulate_media(color_scheme=scheme)
            ask = "getComputedStyle(document.querySelector('.bp-{}')).fill"
            colours[scheme] = [page.page.evaluate(ask.format(role)) for role in ("paper", "ink")]
    assert colours == {
        "light": ["rgb(254, 254, 254)", "rgb(32, 36, 43)"],
        "dark": ["rgb(21, 24, 29)", "rgb(230, 233, 238)"],
    }


def lightness(colour: str) -> float:
    """Relative luminance of a colour."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


def contrast(one: str, other: str) -> float:
    high, low = sorted((lightness(one), lightness(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(
    ("ground", "fills", "letters"), [("#fefefe", COLOURS, LETTERS), ("#15181d", DARK_COLOURS, DARK_LETTERS)]
)
def test_the_costlier_a_block_the_more_its_tile_stands_out(
    ground: str, fills: tuple[str, ...], letters: tuple[str, ...]
) -> None:
    """On either ground, with letters that can be read."""
    contrasts = [contrast(fill, ground) for fill in fills]
    assert contrasts == sorted(contrasts)
    assert all(contrast(fill, letter) >= 4.5 for fill, letter in zip(fills, letters))


def test_the_style_of_a_dark_page_has_the_dark_tiles() -> None:
    sheet = (Path(drawing.__file__).parents[1] / "explorer" / "views" / "dark.css").read_text()
    assert all(f"--cost{level}: {fill};" in sheet for level, fill in enumerate(DARK_COLOURS))
    assert all(f"--cost{level}-letter: {letter};" in sheet for level, letter in enumerate(DARK_LETTERS))
