from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure
from support.artists import visible_texts
from support.profiled import profiled_run
from support.synthetic import small_run, synthetic_run

import bathyscope
from bathyscope.errors import OptionError, StoreError
from bathyscope.pages.figures.kind import Panel, arrange
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.figures.registry import FIGURES
from bathyscope.pages.files import export
from bathyscope.pages.files.export import save_figures
from bathyscope.pages.files.panel_files import save_panels

SMALL = small_run()
HEADS = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return save_figures(SMALL, tmp_path_factory.mktemp("figures") / "new" / "folder")


def test_one_file_per_figure_and_format(saved: list[Path]) -> None:
    names = [f"{name}.{end}" for name in ("effective_depth", "drop") for end in ("png", "svg", "pdf")]
    assert [path.name for path in saved] == names
    assert all(path.read_bytes().startswith(HEADS[path.suffix[1:]]) for path in saved)
    assert sorted(os.listdir(saved[0].parent)) == sorted(names)


def test_the_profile_is_the_first_file_of_a_run_that_has_one(tmp_path: Path) -> None:
    run = profiled_run(measures=("drop",))
    paths = save_figures(run, tmp_path, ["svg"])
    assert [path.name for path in paths] == ["profile.svg", "drop.svg"]
    assert paths[0].read_bytes().startswith(HEADS["svg"])


def test_same_run_same_bytes(saved: list[Path], tmp_path: Path) -> None:
    again = save_figures(SMALL, str(tmp_path))
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in saved]


def test_files_hold_no_date(saved: list[Path]) -> None:
    for path in saved:
        content = path.read_bytes()
        assert b"dc:date" not in content
        assert b"CreationDate" not in content


def test_unknown_format_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"'jpg' is unknown; allowed: png, svg, pdf"):
        save_figures(SMALL, tmp_path, ["png", "jpg"])
    assert not os.listdir(tmp_path)


def test_a_format_is_given_once(tmp_path: Path) -> None:
    for save in (save_figures, save_panels):
        with pytest.raises(OptionError, match="formats: 'svg' is given twice; give it once"):
            save(SMALL, tmp_path, ["svg", "png", "svg"])
    with pytest.raises(OptionError, match="formats: 'png' is given twice"):
        bathyscope.reproduce("lad2024", formats=["png", "png"])


@pytest.mark.parametrize("formats", ["png", []])
def test_formats_are_a_list(formats: object, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="Give a list with at least one of: png, svg, pdf"):
        save_figures(SMALL, tmp_path, formats)  # type: ignore[arg-type]


def test_folder_that_is_a_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(
        StoreError, match=r"The folder '.*taken' cannot hold figures: it is no folder. Nothing was computed"
    ):
        save_figures(SMALL, tmp_path / "taken")
    assert (tmp_path / "taken").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((3,), "Expected runs, not 3 of type int. Give what bathyscope.survey"),
        (([SMALL, SMALL],), "save_figures takes one run, not 2. For several runs use save_side_by_side"),
        (
            (SMALL, "x", ["png"], {"band": "none"}),
            r"options must be bathyscope.pages.FigureOptions\(...\) or None, not .* dict",
        ),
    ],
)
def test_arguments_of_another_type_are_one_sentence(arguments: tuple[object, ...], words: str, tmp_path: Path) -> None:
    run, *rest = arguments
    with pytest.raises(OptionError, match=words):
        save_figures(run, tmp_path, *rest[1:])  # type: ignore[arg-type]
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("heading", [True, False])
def test_exported_files_carry_no_noise_floor_and_no_heading_when_none_is_wanted(
    heading: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    headings = []

    def record(text: str, panels: Sequence[Panel]) -> Figure:
        headings.append(text)
        return arrange(text, panels)

    monkeypatch.setattr(export, "arrange", record)
    options = FigureOptions(heading=heading)
    export.save_figures(SMALL, tmp_path, ["svg"], options)
    assert "noise floor" in SMALL.caption()
    assert set(headings) == {SMALL.caption(noise=False) if heading else ""}
    assert "noise" not in headings[0]


def test_a_figure_without_a_heading_keeps_no_room_for_one() -> None:
    panels = FIGURES["drop"].panels(synthetic_run(3, 3))
    bare, headed = arrange("", panels), arrange("model on data", panels)
    assert bare.get_figheight() == pytest.approx(sum(row.size[1] for row in panels[::2]), abs=0.01)
    assert headed.get_figheight() > bare.get_figheight()
    assert not [text for text, _ in visible_texts(bare) if text == "model on data"]


OWN = {"svg": b"<svg>mine</svg>", "png": b"\x89PNG\r\n\x1a\nmine", "pdf": b"%PDF-1.4\n<< /Creator (mine) >>"}


@pytest.mark.parametrize("format_", OWN)
@pytest.mark.parametrize("save", [save_figures, save_panels])
def test_a_picture_of_the_users_own_is_not_replaced(save: Any, format_: str, tmp_path: Path) -> None:
    """Found before anything is drawn into the folder; what was drawn here before is replaced."""
    written = save(SMALL, tmp_path, [format_])
    assert save(SMALL, tmp_path, [format_]) == written
    own = next(path for path in reversed(written) if path.suffix == f".{format_}")
    for path in written:
        path.unlink()
    own.write_bytes(OWN[format_])
    with pytest.raises(StoreError, match=rf"{own.name}' exists and is not a picture that bathyscope wrote"):
        save(SMALL, tmp_path, [format_])
    assert own.read_bytes() == OWN[format_]
    assert os.listdir(tmp_path) == [own.name]


@pytest.mark.parametrize("save", [save_figures, save_panels])
def test_the_message_names_the_flag_of_figures(save: Any, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("")
    with pytest.raises(StoreError, match=r"give another folder \(folder=..., --figures ...\)"):
        save(SMALL, taken, ["svg"])
