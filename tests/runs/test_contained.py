"""A file of results cannot show other files, fill the memory, or end in another error than ours."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tracemalloc
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import waves

import bathyscope
from bathyscope.errors import BathyscopeError, StoreError
from bathyscope.runs.canonical import canonical
from bathyscope.runs.manifest import Manifest
from bathyscope.runs.netcdf import encode
from bathyscope.runs.shards import decode


def _file(fill: Callable[[h5py.File], None]) -> bytes:
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        fill(file)
    return content.getvalue()


def test_values_in_another_file_are_not_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"k" * 64)

    def external(file: h5py.File) -> None:
        file.create_dataset("x", (64,), "u1", external=[(str(secret), 0, 64)])

    def view(file: h5py.File) -> None:
        layout = h5py.VirtualLayout((64,), "u1")
        layout[:] = h5py.VirtualSource(str(secret), "x", (64,))
        file.create_group("lens").create_virtual_dataset("x", layout)

    for fill in (external, view):
        with pytest.raises(StoreError, match="in another file, and nothing but the file itself is read"):
            decode(_file(fill))


@pytest.mark.parametrize("link", [h5py.SoftLink("/other"), h5py.ExternalLink("other.h5", "/x")])
def test_links_are_not_followed(link: object) -> None:
    def fill(file: h5py.File) -> None:
        file.create_group("lens")["x"] = link

    with pytest.raises(StoreError, match="holds the link 'x' in place of values"):
        decode(_file(fill))


def test_declared_sizes_are_added_up_before_anything_is_read() -> None:
    def hollow(file: h5py.File) -> None:
        for name in ("x", "y"):
            file.create_dataset(name, (1 << 40,), "f8", chunks=(1 << 20,))

    def wide(file: h5py.File) -> None:
        texts = np.array(["a"] * 40_000 + ["b" * 40_000], dtype=object)
        file.create_dataset("t", data=texts, dtype=h5py.string_dtype())

    for fill, size in ((hollow, r"16384\.0 GiB"), (wide, r"6\.0 GiB")):
        with pytest.raises(StoreError, match=f"declares values of {size}, which it cannot hold"):
            decode(_file(fill))


def _of_one_text(fill: Callable[[h5py.File], None], letters: int) -> bytes:
    """Make every reference to a text that follows that of a long one refer to the long one."""
    content = bytearray(_file(fill))
    (first,) = (
        place
        for place in range(len(content))
        if content.startswith(letters.to_bytes(4, "little"), place)
        and content.startswith((1).to_bytes(4, "little"), place + 16)
    )
    place = first
    while content.startswith((1).to_bytes(4, "little"), place + 16):
        place += 16
        content[place : place + 16] = content[first : first + 16]
    return bytes(content)


@pytest.mark.parametrize("shape", [(600,), (1, 600), (600, 1), (3, 200)])
@pytest.mark.parametrize("is_attribute", [False, True])
def test_one_long_text_is_not_read_many_times(shape: tuple[int, ...], is_attribute: bool) -> None:
    letters = 500_000

    def fill(file: h5py.File) -> None:
        texts = np.full(shape, "b", dtype=object)
        texts.flat[0] = "a" * letters
        group = file.create_group("lens")
        if is_attribute:
            group.attrs.create("x", texts, dtype=h5py.string_dtype())
        else:
            group.create_dataset("x", data=texts, dtype=h5py.string_dtype())

    content = _of_one_text(fill, letters)
    tracemalloc.start()
    try:
        with pytest.raises(StoreError, match=r"has \d MiB and declares values of \d+ MiB, which it cannot hold"):
            decode(content)
        assert tracemalloc.get_traced_memory()[1] < 150 << 20
    finally:
        tracemalloc.stop()


def test_texts_of_all_attributes_are_added_up() -> None:
    def fill(file: h5py.File) -> None:
        for number in range(300):
            file.attrs.create(f"x{number}", "a" * (60_000 if number else 500_000), dtype=h5py.string_dtype())

    content = bytearray(_file(fill))
    first = content.index((500_000).to_bytes(4, "little"))
    short, place = (60_000).to_bytes(4, "little"), 0
    while (place := content.find(short, place)) >= 0:
        content[place : place + 16] = content[first : first + 16]
        place += 16
    with pytest.raises(StoreError, match="which it cannot hold"):
        decode(bytes(content))


def test_what_is_neither_number_nor_text_is_not_read() -> None:
    lists = np.array([np.zeros(2, np.uint8), np.zeros(3, np.uint8)], dtype=object)

    def of_values(file: h5py.File) -> None:
        file.create_group("lens").create_dataset("x", data=lists, dtype=h5py.vlen_dtype(np.uint8))

    def of_attributes(file: h5py.File) -> None:
        file.create_group("lens").attrs.create("x", lists, dtype=h5py.vlen_dtype(np.uint8))

    def of_references(file: h5py.File) -> None:
        file.create_group("lens").create_dataset("x", (3,), dtype=h5py.ref_dtype)

    for fill in (of_values, of_attributes, of_references):
        with pytest.raises(StoreError, match="x' holds neither numbers nor texts"):
            decode(_file(fill))


def test_dimensions_have_one_scale_each() -> None:
    def fill(file: h5py.File) -> None:
        group = file.create_group("lens")
        for name in ("a", "b"):
            group[name] = np.arange(3)
            group[name].make_scale(name)
        group["x"] = np.arange(3)
        for name in ("a", "b"):
            group["x"].dims[0].attach_scale(group[name])

    with pytest.raises(StoreError, match="'/lens/x' has no scale for each of its dimensions"):
        decode(_file(fill))


@given(st.lists(st.text(max_size=6), min_size=1, max_size=8), st.integers(0, 3), st.integers(1, 3))
@settings(max_examples=25, deadline=None)
def test_texts_of_any_shape_come_back(texts: list[str], rows: int, columns: int) -> None:
    values = np.resize(np.array(texts, dtype=object), (rows, len(texts), columns))
    kept = canonical(xr.Dataset({"x": (("a", "b", "c"), values)}, attrs={"note": texts, "none": ""}), "x")
    again = decode(encode({"g": kept}))["g"]
    assert again.identical(kept)


def written(folder: Path) -> bathyscope.Run:
    model = bathyscope.load(waves.loaded("llama").hf)
    return bathyscope.survey(model, [[11, 12, 13], [19, 18, 17, 16]], ["lens"], folder, progress=False)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("honest") / "run"
    written(folder)
    return folder


def _reopened(folder: Path, name: str, content: bytes) -> None:
    """Put another file in a run, with its hash in the manifest, as somebody does who means it."""
    manifest = json.loads((folder / "manifest.json").read_text())
    text = json.dumps(manifest).replace(
        hashlib.sha256((folder / name).read_bytes()).hexdigest(), hashlib.sha256(content).hexdigest()
    )
    (folder / name).write_bytes(content)
    (folder / "manifest.json").write_text(text)


@given(data=st.data())
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_bytes_that_nobody_wrote_end_in_one_error_of_ours(honest: Path, data: st.DataObject) -> None:
    content = bytearray((honest / "shard-00000.nc").read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    for damaged in (bytes(content), bytes(content[:cut])):
        # anything but an error of ours fails the test
        with suppress(BathyscopeError):
            assert all(dataset.nbytes < 1 << 28 for dataset in decode(damaged).values())


def _paths(tree: object, at: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [at, *(path for key, value in inner for path in _paths(value, (*at, key)))]


_VALUES = st.sampled_from(
    [
        None,
        True,
        -1,
        0,
        10**30,
        1.5,
        "",
        "x",
        "../../etc",
        "a\0b",
        "/etc/passwd",
        [],
        {},
        [[]],
        {"": {}},
        "\x1b]0;x\x07",
    ]
)


@given(data=st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_manifest_with_one_other_field_is_read_or_refused(honest: Path, data: st.DataObject) -> None:
    whole = json.loads((honest / "manifest.json").read_text())
    *way, last = data.draw(st.sampled_from([path for path in _paths(whole) if path]))
    place = whole
    for key in way:
        place = place[key]
    if data.draw(st.booleans()) and isinstance(place, dict):
        del place[last]
    else:
        place[last] = data.draw(_VALUES)
    folder = honest.parent / "damaged"
    folder.mkdir(exist_ok=True)
    for file in honest.iterdir():
        if file.name != "manifest.json" and not (folder / file.name).exists() and file.is_file():
            os.link(file, folder / file.name)
    (folder / "manifest.json").write_text(json.dumps(whole))
    try:
        run = bathyscope.open(folder)
        text = f"{run!r} {run.caption()}"
    except BathyscopeError as error:
        text = str(error)
    assert "\x1b" not in text


def test_the_hash_that_a_manifest_expects_is_shown_without_acting(honest: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(honest, tmp_path / "run")
    whole = json.loads((folder / "manifest.json").read_text())
    # the line, too: a further one would look like the program's own
    whole["record"]["derived"]["sha256"] = "\x1b]0;x\x07\nDone."
    (folder / "manifest.json").write_text(json.dumps(whole))
    with pytest.raises(StoreError, match=r"manifest expects \\x1b\]0;x\\x07\\nDone\."):
        bathyscope.open(folder)


def test_notes_that_are_nested_too_deep_are_refused(tmp_path: Path) -> None:
    written(tmp_path / "run")
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    text = json.dumps(manifest).replace('"notes": {', f'"notes": {{"deep": {"[" * 900}{"]" * 900}, ', 1)
    (tmp_path / "run" / "manifest.json").write_text(text)
    with pytest.raises(StoreError, match="nested too deep"):
        bathyscope.open(tmp_path / "run")


def test_prompts_that_were_not_measured_are_refused(tmp_path: Path) -> None:
    run = written(tmp_path / "run")
    name = run.manifest["record"]["files"]["prompts"]["file"]
    lines = (tmp_path / "run" / name).read_text().splitlines()
    first = json.loads(lines[0])
    first["ids"][0] += 1
    content = "\n".join([json.dumps(first), *lines[1:], ""]).encode()
    _reopened(tmp_path / "run", name, content)
    with pytest.raises(StoreError, match="holds other prompts than were measured"):
        _ = bathyscope.open(tmp_path / "run").prompts


def test_controls_are_folders_of_the_run(tmp_path: Path) -> None:
    written(tmp_path / "run")
    (tmp_path / "run" / "controls").mkdir()
    (tmp_path / "run" / "controls" / "a").symlink_to("..")
    with pytest.raises(StoreError, match="is a link, and the controls of a run are folders of its own"):
        bathyscope.open(tmp_path / "run")


@pytest.mark.parametrize("has_manifest", [True, False])
def test_nothing_is_looked_at_behind_a_link_in_place_of_the_controls(tmp_path: Path, has_manifest: bool) -> None:
    written(tmp_path / "run")
    (tmp_path / "elsewhere" / "mine").mkdir(parents=True)
    if has_manifest:
        (tmp_path / "elsewhere" / "mine" / "manifest.json").write_text("{}")
    (tmp_path / "run" / "controls").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="run/controls' is a link") as caught:
        bathyscope.open(tmp_path / "run")
    assert "mine" not in str(caught.value)


def test_a_fifo_in_place_of_a_manifest_or_shard_does_not_hang(tmp_path: Path) -> None:
    written(tmp_path / "run")
    shard = tmp_path / "run" / "shard-00000.nc"
    content = shard.read_bytes()
    shard.unlink()
    os.mkfifo(shard)
    with pytest.raises(StoreError, match="it is a FIFO, and only regular files are read"):
        bathyscope.open(tmp_path / "run")
    shard.unlink()
    (tmp_path / "elsewhere").write_bytes(content)
    shard.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="it is a link that leaves") as caught:
        bathyscope.open(tmp_path / "run")
    assert hashlib.sha256(content).hexdigest() not in str(caught.value)
    manifest = tmp_path / "run" / "manifest.json"
    (tmp_path / "manifest").write_bytes(manifest.read_bytes())
    manifest.unlink()
    manifest.symlink_to(tmp_path / "manifest")
    with pytest.raises(StoreError, match=r"There is no run in .*: manifest\.json .* a link that leaves") as caught:
        bathyscope.open(tmp_path / "run")
    assert "It holds" not in str(caught.value)
    manifest.unlink()
    os.mkfifo(manifest)
    with pytest.raises(StoreError, match="it is a FIFO"):
        bathyscope.open(tmp_path / "run")


def test_many_places_that_share_one_long_text_are_not_read_at_once() -> None:
    def fill(file: h5py.File) -> None:
        texts = file.create_dataset("t", (4000,), dtype=h5py.string_dtype())
        texts[0] = "a" * 1_000_000
        raw = np.zeros(4000, dtype=object)
        raw[:] = "a" * 1_000_000
        texts[:2] = raw[:2]

    content = bytearray(_file(fill))
    with h5py.File(io.BytesIO(bytes(content))) as file:
        offset = file["t"].id.get_offset()
    # every place refers to the first text
    content[offset : offset + 16 * 4000] = content[offset : offset + 16] * 4000
    tracemalloc.start()
    with pytest.raises(StoreError, match="which it cannot hold"):
        decode(bytes(content))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 600 << 20


def test_a_name_that_is_a_number_is_no_length() -> None:
    def fill(file: h5py.File) -> None:
        file.create_dataset("x", data=np.arange(3.0)).attrs["NAME"] = np.int64(10**14)

    assert decode(_file(fill))[""]["x"].values.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("way", "value", "message"),
    [
        (("identity", "loops"), 0, "loops is 0, not a list"),
        (("identity", "loops"), ["0"], "an entry of loops is '0', not a whole number"),
        (("identity", "states"), -1, "states is -1, not a mapping"),
        (("identity", "states"), {}, r"states\.boundaries is None, not a list"),
        (("identity", "states"), {"boundaries": ["x"]}, r"an entry of states\.boundaries is 'x', not a whole number"),
        (("identity", "packing"), [1], r"packing is \[1\], not text"),
        (("identity", "gguf"), "x", "gguf is 'x', not a mapping"),
        (("identity", "measures", "lens"), [1, 2], r"measures\.lens is \[1, 2\], not a mapping"),
        (("identity", "measures", "lens", "norm"), True, r"measures\.lens: norm"),
        (("identity", "measures", "lens", "k"), "/home/x", r"measures\.lens: k"),
        (("record", "notes"), "x", r"record\.notes is 'x', not a mapping"),
    ],
)
def test_a_configuration_is_of_the_kinds_that_a_survey_writes_whatever_hash_its_files_have(
    way: tuple[str, ...], value: object, message: str, tmp_path: Path
) -> None:
    """Whoever alters a manifest can compute what its files say of it again."""
    written(tmp_path / "run")
    path = tmp_path / "run" / "manifest.json"
    tree = json.loads(path.read_text())
    place = tree
    for key in way[:-1]:
        place = place[key]
    place[way[-1]] = value
    path.write_text(json.dumps(tree))
    with pytest.raises(StoreError, match=rf"manifest\.json' is not a readable manifest of a run .*{message}"):
        bathyscope.open(tmp_path / "run")


def test_options_of_earlier_versions_are_read(tmp_path: Path) -> None:
    """They may have had others, and lacked some."""
    written(tmp_path / "run")
    tree = json.loads((tmp_path / "run" / "manifest.json").read_text())
    name = next(iter(tree["identity"]["measures"]))
    tree["identity"]["measures"][name] = {"of_an_earlier_version": 3}
    tree["identity"]["measures"]["from_elsewhere"] = 5
    assert Manifest.from_tree(tree, "x").identity.measures[name] == {"of_an_earlier_version": 3}


def test_a_name_for_each_prompt_is_needed(tmp_path: Path) -> None:
    run = written(tmp_path / "run")
    name = run.manifest["record"]["shards"][0]["file"]
    content = io.BytesIO((tmp_path / "run" / name).read_bytes())
    with h5py.File(content, "r+") as file:
        groups = [group for group in file.values() if isinstance(group, h5py.Group) and "prompt_id" in group]
        assert groups
        for group in groups:
            del group["prompt_id"]
            group["prompt_id"] = 0
    _reopened(tmp_path / "run", name, content.getvalue())
    with pytest.raises(StoreError, match="prompt_id that is not one for each prompt"):
        _ = bathyscope.open(tmp_path / "run").prompts


def test_what_is_no_folder_among_the_controls_is_refused_or_said(tmp_path: Path) -> None:
    """FIFOs, files and folders without a run were left out without a word."""
    written(tmp_path / "run")
    room = tmp_path / "run" / "controls"
    room.mkdir()
    (room / ".DS_Store").write_text("")
    (room / ".hidden").mkdir()
    (room / "notes.txt").write_text("")
    (room / "untrained-0").mkdir()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert bathyscope.open(tmp_path / "run").controls == {}
    said = [str(warning.message) for warning in caught]
    assert len(said) == 2
    assert "notes.txt' is a file, and the controls of a run are folders of its own; it is left out." in said[0]
    assert "The control untrained-0 of the run in" in said[1]
    assert said[1].endswith("has no manifest.json, and is left out.")
    os.mkfifo(room / "untrained-1")
    with pytest.raises(StoreError, match="untrained-1' is a FIFO, and the controls of a run are folders of its own"):
        bathyscope.open(tmp_path / "run")
    shutil.rmtree(room)
    os.mkfifo(room)
    with pytest.raises(StoreError, match="controls' is a FIFO, and the controls of a run are folders of its own"):
        bathyscope.open(tmp_path / "run")
