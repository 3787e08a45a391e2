from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from matplotlib.figure import FigureBase
from support.drawn_paths import places
from support.synthetic import synthetic_run
from support.synthetic_tokens import complete_run

from bathyscope.pages.figures.kind import Panel, draw_panel
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.of import skip
from bathyscope.pages.figures.of.curves import FIGURES
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.figures.registry import FIGURES as FIGURES_OF_MAPS
from bathyscope.pages.figures.render import render
from bathyscope.pages.figures.svg import inline_svg

SVG = "{http://www.w3.org/2000/svg}"
RUN = synthetic_run(L=4)
KL = FIGURES["drop"].panels(RUN, FigureOptions())[0]
TEXT = inline_svg(KL, "run-1-drop-kl")


def test_is_one_element() -> None:
    assert ET.fromstring(TEXT).tag == "{http://www.w3.org/2000/svg}svg"


def test_ids_carry_the_name_and_references_find_them() -> None:
    ids = re.findall(r'\bid="([^"]+)"', TEXT)
    references = re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', TEXT)
    assert ids
    assert references
    assert len(set(ids)) == len(ids)
    assert all(name.startswith("run-1-drop-kl-") for name in ids)
    assert {a or b for a, b in references} <= set(ids)


def test_two_pictures_share_no_id() -> None:
    other = inline_svg(KL, "run-2-drop-kl")
    assert not set(re.findall(r'\bid="([^"]+)"', TEXT)) & set(re.findall(r'\bid="([^"]+)"', other))


def test_colours_can_be_changed_by_the_page() -> None:
    for colour in (style.INK, style.PAPER, style.VERMILION):
        assert f"var({style.CSS_NAMES[colour]}, {colour})" in TEXT
        assert not re.search(rf": {colour}", TEXT)


def test_text_stays_text() -> None:
    texts = [element.text for element in ET.fromstring(TEXT).iter("{http://www.w3.org/2000/svg}text")]
    assert "KL(normal ‖ changed) (nats)" in texts


def test_map_is_an_embedded_picture_of_its_cells() -> None:
    text = inline_svg(skip.FIGURE.panels(RUN, FigureOptions())[0], "run-1-skip-all")
    (first, *_) = re.findall(r"<image[^>]*href=\"([^\"]{22})", text)
    assert first == "data:image/png;base64,"


@pytest.mark.parametrize(("measure", "signed"), [("integrated_gradients", True), ("pairs", False), ("skip", False)])
def test_a_map_and_its_colour_bar_are_turned_over_together(measure: str, signed: bool) -> None:
    """In the dark, where both have the name by which the page knows signed maps, or neither."""
    panel = FIGURES_OF_MAPS[measure].panels(complete_run(L=4, prompts=2, tokens=8), FigureOptions())[0]
    pictures = re.findall(r"<image[^>]*>", inline_svg(panel, "one"))
    assert len(pictures) >= 2
    assert {'class="signed"' in picture for picture in pictures} == {signed}


def test_nothing_reaches_beyond_the_picture() -> None:
    (rules,) = re.findall(r"<style>(.*?)</style>", TEXT)
    selectors = [rule.partition("{")[0] for rule in rules.split("}")[:-1]]
    assert selectors
    assert all(selector.startswith("#run-1-drop-kl-p .") for selector in selectors)
    assert 'id="run-1-drop-kl-p"' in TEXT[: TEXT.index(">")]
    assert "<metadata" not in TEXT


def test_looks_are_said_once_and_are_those_of_the_picture() -> None:
    """Every drawn thing has the look that matplotlib gave it, in its order."""
    written = render(draw_panel(KL), "svg", salt="run-1-drop-kl", text_as_text=True).decode()
    for colour, variable in style.CSS_NAMES.items():
        written = written.replace(f": {colour}", f": var({variable}, {colour})")
    rules = dict(re.findall(r"#run-1-drop-kl-p \.(\w+)\{([^}]*)\}", TEXT))
    found = [one.get("style") or rules.get(one.get("class", ""), "") for one in ET.fromstring(TEXT).iter(f"{SVG}text")]
    given = [str(one.get("style")) for one in ET.fromstring(written).iter(f"{SVG}text")]
    assert found == [re.sub(r"font-family: [^;\"]*; |font: ", "", look) for look in given]
    # but for what is drawn where it is used, which no rule reaches there
    said = re.findall(r'style="([^"]*)"', re.sub(r'<path id="[^>]*>', "", TEXT))
    assert said
    assert len(set(said)) == len(said)


def test_groups_without_a_word_are_gone_and_places_stay() -> None:
    assert "<g>" not in TEXT
    assert TEXT.count("<g ") == TEXT.count("</g>")
    assert "\n" not in "".join(re.findall(r' d="([^"]*)"', TEXT))


def test_places_are_as_fine_as_can_be_seen_and_texts_stay() -> None:
    written = render(draw_panel(KL), "svg", salt="run-1-drop-kl", text_as_text=True).decode()
    assert len(TEXT) < 0.5 * len(written)
    texts = [[element.text for element in ET.fromstring(text).iter(f"{SVG}text")] for text in (written, TEXT)]
    assert texts[0] == texts[1]
    lines = [_lines(text) for text in (written, TEXT)]
    assert len(lines[0]) == len(lines[1]) > 20
    for before, after in zip(*lines):
        np.testing.assert_allclose(after, before, atol=0.0051)


def test_a_grid_names_no_clip_and_ends_with_its_axes() -> None:
    """As its lines do that a clip cuts: a butt end, where the place is that of the axes' edge."""
    looks = dict(re.findall(r"#run-1-drop-kl-p \.(\w+)\{([^}]*)\}", TEXT))
    (grid,) = [name for name, look in looks.items() if style.GRID in look]
    assert "stroke-linecap" not in looks[grid]
    drawn = [one for one in ET.fromstring(TEXT).iter(f"{SVG}path") if one.get("class") == grid]
    (box,) = [{k: float(v) for k, v in one.attrib.items()} for one in ET.fromstring(TEXT).iter(f"{SVG}rect")]
    edges = ((box["x"], box["x"] + box["width"]), (box["y"], box["y"] + box["height"]))
    assert len(drawn) > 5
    for one in drawn:
        assert one.get("clip-path") is None
        line = places(str(one.get("d")))
        along = int(line[0, 0] == line[1, 0])
        np.testing.assert_allclose(sorted(line[:, along]), edges[along], atol=0.011)
        assert edges[1 - along][0] <= line[0, 1 - along] <= edges[1 - along][1]


def test_numbers_in_texts_are_not_cut() -> None:
    def draw(figure: FigureBase) -> None:
        figure.text(0.5, 0.5, 'x="1.23456" d="0.9999"')

    assert 'x="1.23456" d="0.9999"</text>' in inline_svg(Panel("one", draw, "one text"), "one")


def _lines(text: str) -> list[np.ndarray]:
    """The places of everything that is drawn as a line or marked."""
    lines = []
    for element in ET.fromstring(text).iter():
        if "marker: url(" in element.get("style", ""):
            # equal marks, each at a corner of what is not drawn itself
            assert "fill: none; stroke: none;" in element.get("style", "")
            lines += [corner[None] for corner in places(str(element.get("d")))]
        elif element.tag == f"{SVG}path":
            lines.append(places(str(element.get("d"))))
        elif element.tag == f"{SVG}use" and element.get("x") is not None:
            lines.append(places(f"M{element.get('x')} {element.get('y')}"))
    return lines


@pytest.mark.parametrize(("name", "markers"), [("curve", 1), ("map", 3)])
def test_marks_that_are_equal_are_one_element_and_look_as_they_did(name: str, markers: int) -> None:
    """The marks of a curve are one; of axes without a grid, the ticks of each, the bar of colours among them."""
    panel = {"curve": KL, "map": skip.FIGURE.panels(RUN, FigureOptions())[0]}[name]
    text = inline_svg(panel, name)
    drawn = ET.fromstring(text)
    joined = [one for one in drawn.iter(f"{SVG}path") if "marker: url(" in one.get("style", "")]
    names = [str(one.get("id")) for one in drawn.iter(f"{SVG}marker")]
    assert len(names) == len(set(names)) == markers
    assert {re.findall(r"marker: url\(#(.*)\)", str(one.get("style")))[0] for one in joined} == set(names)
    assert sum(len(places(str(one.get("d")))) for one in joined) > 2 * len(joined)
    looks = dict(re.findall(rf"#{name}-p \.(\w+)\{{([^}}]*)\}}", text))
    assert all(one.get("class") in looks for one in drawn.iter(f"{SVG}marker"))
