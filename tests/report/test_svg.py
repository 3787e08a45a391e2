from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from support.synthetic import synthetic_run

from bathyscope.report.figures import drop, skip, style
from bathyscope.report.figures.options import FigureOptions
from bathyscope.report.svg import inline_svg

RUN = synthetic_run(L=4)
KL = drop.FIGURE.panels(RUN, FigureOptions())[0]
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


def test_nothing_reaches_beyond_the_picture() -> None:
    assert "<style" not in TEXT
    assert "<metadata" not in TEXT
