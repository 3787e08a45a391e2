"""Folders of stored states: their layouts, which boundaries they are of, and what is refused before any is read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from bathyscope.errors import ModelError
from bathyscope.model.states.folder import open_folder

WIDTH = 4


def write(folder: Path, name: str, ids: Sequence[int], boundaries: int = 3, dtype: torch.dtype = torch.float32) -> None:
    folder.mkdir(exist_ok=True)
    states = torch.arange(len(ids) * boundaries * WIDTH, dtype=dtype).reshape(len(ids), boundaries, WIDTH)
    save_file({"hidden_states": states, "token_ids": torch.tensor(list(ids))}, folder / f"{name}.safetensors")


@pytest.mark.parametrize(
    ("names", "layout"),
    [
        (["cmpl-b-0", "cmpl-a-0"], "vllm"),
        (["hs_10", "hs_2"], "speculators"),
        (["states"], "plain"),
        (["states-1", "states-0"], "plain"),
    ],
)
def test_layouts_are_told_by_the_names_of_files_which_are_read_as_people_count(
    tmp_path: Path, names: list[str], layout: str
) -> None:
    for number, name in enumerate(names):
        write(tmp_path, name, [number + 1, 2, 3])
    (tmp_path / f"{names[0]}.safetensors.lock").touch()  # vLLM leaves one next to each file
    states = open_folder(tmp_path)
    assert states.layout == layout
    assert [prompt.name for prompt in states.prompts] == names[::-1]
    assert states.find([2, 2, 3]) == (states.prompts[0] if len(names) > 1 else None)


def test_a_prompt_that_is_stored_twice_counts_once_and_is_named(tmp_path: Path) -> None:
    for name in ("hs_0", "hs_1", "hs_2"):
        write(tmp_path, name, [1, 2, 3] if name != "hs_1" else [4, 5, 6])
    with pytest.warns(UserWarning, match=r"Left out, since an earlier prompt has the same tokens: hs_2 \(hs_0\)\."):
        states = open_folder(tmp_path)
    assert [prompt.name for prompt in states.prompts] == ["hs_0", "hs_1"]


@pytest.mark.parametrize(
    ("boundaries", "dtype", "message"),
    [
        (2, torch.float32, "hs_1.safetensors holds 2 boundaries of width 4 in float32, and hs_0.safetensors 3"),
        (3, torch.float16, "hs_1.safetensors holds 3 boundaries of width 4 in float16, and hs_0.safetensors 3"),
    ],
)
def test_files_of_two_kinds_in_one_folder_are_refused(
    tmp_path: Path, boundaries: int, dtype: torch.dtype, message: str
) -> None:
    write(tmp_path, "hs_0", [1, 2])
    write(tmp_path, "hs_1", [3, 4], boundaries, dtype)
    with pytest.raises(ModelError, match=message):
        open_folder(tmp_path)


@pytest.mark.parametrize(
    ("file", "message"),
    [
        (None, "holds no .safetensors file. Give the folder"),
        ("data_0.pt", "its .pt files are a pickle"),
        ("cmpl-0.safetensors.zst", "its .zst files are packed by zstd"),
        ("config.json", "It holds a model"),
    ],
)
def test_a_folder_without_states_says_what_it_holds(tmp_path: Path, file: str | None, message: str) -> None:
    if file is not None:
        (tmp_path / file).write_text("{}")
    with pytest.raises(ModelError, match=message):
        open_folder(tmp_path)
    with pytest.raises(ModelError, match="nowhere is no folder"):
        open_folder(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("record", "asked_for", "n_blocks", "expected"),
    [
        ({"boundaries": [0, 2, 5]}, None, 5, (0, 2, 5)),
        ({"boundaries": [0, 2, 5], "n_blocks": 5}, [0, 2, 5], 5, (0, 2, 5)),
        (None, [1, 2, 3], 5, (1, 2, 3)),
        (None, None, 2, (0, 1, 2)),  # all that there are need not be named
    ],
)
def test_boundaries_are_those_of_the_record_or_of_whoever_asks(
    tmp_path: Path, record: object, asked_for: list[int] | None, n_blocks: int, expected: tuple[int, ...]
) -> None:
    write(tmp_path, "hs_0", [1, 2])
    if record is not None:
        (tmp_path / "states.json").write_text(json.dumps(record))
    assert open_folder(tmp_path).with_boundaries(asked_for, n_blocks).boundaries == expected


@pytest.mark.parametrize(
    ("record", "asked_for", "message"),
    [
        (None, None, r"does not say which 3 of the 9 boundaries its states are of"),
        (None, [0, 8], r"2 boundaries \[0, 8\] for states of 3: one is missing or too many"),
        (None, [0, 8, 2], r"boundaries \[0, 8, 2\] do not ascend. vLLM stores layers in ascending order"),
        (None, [2, 4, 9], r"are not of a model of 8 blocks, whose boundaries are 0 \(the embedding\) to 8"),
        (
            {"boundaries": [0, 1, 2]},
            [0, 1, 8],
            r"boundaries=\[0, 1, 8\] is not what .*states.json says \(\[0, 1, 2\]\)",
        ),
        ({"boundaries": [0, 1, 2], "n_blocks": 4}, None, r"of a model of 4 blocks, and the head's has 8"),
        ({"boundary": [0, 1, 2]}, None, r"unknown entry 'boundary'. Did you mean 'boundaries'\?"),
        ({"boundaries": ["0", 1, 2]}, None, r"states.json cannot be read \(boundaries is a list of whole numbers"),
        ([0, 1, 2], None, r"states.json"),
    ],
)
def test_boundaries_that_cannot_be_are_refused(
    tmp_path: Path, record: object, asked_for: list[int] | None, message: str
) -> None:
    write(tmp_path, "hs_0", [1, 2])
    if record is not None:
        (tmp_path / "states.json").write_text(json.dumps(record))
    with pytest.raises(ModelError, match=message):
        open_folder(tmp_path).with_boundaries(asked_for, 8)


def test_the_usual_layers_of_speculators_are_named_where_nothing_is_told(tmp_path: Path) -> None:
    write(tmp_path, "hs_0", [1, 2], boundaries=4)
    with pytest.raises(ModelError, match=r"by default speculators stores \[2, 16, 29, 32\]"):
        open_folder(tmp_path).with_boundaries(None, 32)


def test_a_single_boundary_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "hs_0", [1, 2], boundaries=1)
    with pytest.raises(ModelError, match="of boundary 4 alone, and a survey compares boundaries"):
        open_folder(tmp_path).with_boundaries([4], 8)


def test_the_identity_changes_with_any_byte_and_with_the_boundaries(tmp_path: Path) -> None:
    write(tmp_path, "hs_0", [1, 2])
    write(tmp_path, "hs_1", [3, 4])

    def identity(boundaries: list[int]) -> dict[str, object]:
        return open_folder(tmp_path).with_boundaries(boundaries, 8).hashed(lambda _: None).identity()

    before = identity([0, 1, 2])
    assert before["files"] == 2
    assert before["boundaries"] == [0, 1, 2]
    assert identity([0, 1, 2]) == before
    assert identity([0, 1, 8]) != before
    write(tmp_path, "hs_1", [3, 5])
    assert identity([0, 1, 2])["sha256"] != before["sha256"]


def test_a_record_that_leads_nowhere_is_damaged_and_not_missing(tmp_path: Path) -> None:
    """Without it these states would be taken for those of all boundaries."""
    folder = tmp_path / "states"
    write(folder, "hs_0", [5, 9, 7])
    (folder / "states.json").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ModelError, match=r"states\.json cannot be read \(it is a link that leaves .*, and such links"):
        open_folder(folder)


def test_a_message_holds_no_list_without_end(tmp_path: Path) -> None:
    folder = tmp_path / "states"
    write(folder, "hs_0", [5, 9, 7])
    for boundaries in (list(range(100_000)), [0, 10**2000]):
        (folder / "states.json").write_text(json.dumps({"boundaries": boundaries, "n_blocks": 10**100}))
        for asked_for, n_blocks in ((None, 10**100), ([0, 1], 10**100), (None, 4)):
            with pytest.raises(ModelError) as error:
                open_folder(folder).with_boundaries(asked_for, n_blocks)
            assert len(str(error.value)) < 1500
