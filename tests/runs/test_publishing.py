"""A published run names no place on anybody's disk, and is the same run otherwise."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from urllib.parse import quote

import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from support import waves

import bathyscope
from bathyscope.core.text import without_places
from bathyscope.errors import StoreError
from bathyscope.runs.manifest import load_manifest
from bathyscope.runs.places import Places, require_no_place
from bathyscope.runs.publishing import _dataset_without_places, _prompts_without_places, write_without_places


@pytest.mark.parametrize(
    ("text", "public"),
    [
        ("survey /home/ada/tiny --prompts ~/texts/mine.jsonl:40", "survey tiny --prompts mine.jsonl:40"),
        ("--out=/home/ada/x", "--out=x"),
        ("['/home/ada/x', \"/y/z\"]", "['x', \"z\"]"),
        ("C:\\Users\\ada\\x.jsonl:4", "x.jsonl:4"),
        ("text:/home/ada/a.txt file:///home/ada/b.txt C:/Users/ada/m", "text:a.txt b.txt m"),
        ("'/home/ada lovelace/x y.jsonl' ../../home/ada/z ./home/ada/q", "'x y.jsonl' z q"),
        ("\\\\srv\\ada\\m --prompts gsm8k:10@/home/ada/s.jsonl", "m --prompts gsm8k:10@s.jsonl"),
        ("/home/ada/measure.py:Class", "measure.py:Class"),
        ("-o/home/ada/p.jsonl -I/y/z", "-op.jsonl -Iz"),
        ("//home/ada/s/y see //home/ada/s/y", "y see y"),
        ("FILE:///home/ada/z vscode://file/home/ada/x ssh://ada@h/home/ada/q", "z x q"),
        ("'/home/o'\"'\"'brien/secret/x' y", "'x' y"),
        ("survey C:\\Users\\Ada King\\two words\\x and y", "survey x and y"),
        ("%USERPROFILE%\\ada\\x $HOME/ada/y ${HOME}/z", "x y z"),
        ("</home/ada/secret> x./home/ada/x é/home/ada/x -~/x ../home/ada/x", "<secret> x.x éx -x x"),
        ("https://a.b/home/d </b>", "https://a.b/home/d </b>"),
        ("https://a.b/c/d hf://datasets/u/n", "https://a.b/c/d hf://datasets/u/n"),
        ("Qwen/Qwen2.5 gsm8k:10 n/a 1/2 </div>", "Qwen/Qwen2.5 gsm8k:10 n/a 1/2 </div>"),
    ],
)
def test_absolute_paths_are_their_last_names(text: str, public: str) -> None:
    assert without_places(text) == public


ROOMS = st.lists(st.text("ab é'\"&(-._", min_size=1).filter(lambda name: set(name) - {"."}), min_size=3, max_size=4)


@given(ROOMS, st.sampled_from(["{}", "The file {}: 'promt' is no field", "at {}", "x={} y", "see\n{}\n"]))
@settings(max_examples=60, deadline=None)
def test_the_runs_own_places_are_taken_out_however_they_are_written(rooms: list[str], sentence: str) -> None:
    place = f"/base/{'/'.join(rooms)}"
    command = f"bathyscope survey m --prompts {shlex.quote(place)}:40"
    for places in (Places({"model": place}), Places({"command": command})):
        for written in (place, shlex.quote(place), repr(place), quote(place), f"{place}/x.nc", f"{place}:40"):
            public = places.without(sentence.format(written))
            for room in ("/".join(["/base", *rooms[:-1]]), f"/base/{quote(rooms[0])}"):
                assert room not in public
        assert f"/base/{rooms[0]}" not in places.without(command)


@pytest.mark.parametrize("place", ["%2Fhome%2Fada%2Fx", "&#47;home&#47;ada", "\\x2fhome\\x2fada"])
def test_what_cannot_be_shortened_is_not_published(place: str) -> None:
    with pytest.raises(StoreError, match=r"^It names a place that cannot be shortened .*--keep-paths"):
        require_no_place({"notes": [{"x": f"at {place}"}]}, "It")
    require_no_place({"notes": ["https://h/home/ada", "x.jsonl", "no home"]}, "It")


def test_attributes_and_texts_of_results_name_no_place() -> None:
    places = Places({}, [Path("/base/ada/run")])
    dataset = xr.Dataset(
        {"x": ("reader", [1.0, 2.0], {"source": "read from /home/ada/q"})},
        coords={
            "reader": ["/base/ada/run/lens.pt", "./"],
            "id": ("prompt", ["/home/ada/q"]),
            "dataset": ("prompt", ["~/mine.jsonl:3"]),
        },
        attrs={"file": "/base/ada/run/lens.pt", "number": 3},
    )
    public = _dataset_without_places(dataset, places, "lens")
    assert public["reader"].values.tolist() == ["lens.pt", "./"]
    assert public["x"].attrs == {"source": "read from q"}
    assert public.attrs == {"file": "lens.pt", "number": 3}
    assert (public["id"].item(), public["dataset"].item()) == ("/home/ada/q", "mine.jsonl:3")


def test_a_run_is_copied_without_its_places(tmp_path: Path) -> None:
    home = tmp_path / "secret home"
    home.mkdir()
    file = home / "mine.jsonl"
    file.write_text("".join(json.dumps({"ids": ids}) + "\n" for ids in ([11, 12, 13], [19, 18, 17, 16])))
    hf = waves.loaded("llama").hf
    hf.save_pretrained(home / "tiny")
    run = bathyscope.survey(str(home / "tiny"), str(file), ["lens", "drop"], home / "run", progress=False)
    write_without_places(home / "run", load_manifest(home / "run"), tmp_path / "public")
    for path in (tmp_path / "public").iterdir():
        assert b"secret" not in path.read_bytes(), path
    public = bathyscope.open(tmp_path / "public")
    assert public.identity.model == "tiny"
    assert public.identity.dataset == "mine.jsonl"
    assert public.prompts.hash == run.prompts.hash
    assert public.measures == run.measures
    for name in ("lens", "drop"):
        left = run[name].drop_vars("dataset").drop_attrs(deep=False)
        assert public[name].drop_vars("dataset").drop_attrs(deep=False).identical(left)
    listed = run.push("user/name", dry_run=True)
    assert "Would publish" in listed
    assert "manifest.json (" in listed
    assert "secret" not in listed


@pytest.mark.parametrize("line", [b"\xff", b"[]", b"{", b"[" * 100_000, b'{"dataset": 1, "dataset": 2}'])
def test_prompts_that_cannot_be_read_are_not_published(line: bytes) -> None:
    with pytest.raises(
        StoreError, match=r"The prompts of the run cannot be read .* Restore prompts\.jsonl from a copy"
    ):
        _prompts_without_places(b'{"dataset": "a"}\n' + line + b"\n", Places({}))


def test_a_manifest_of_many_paths_is_looked_for_in_few_patterns() -> None:
    deep = "/a" * 2000
    tree = {"paths": [f"/srv/{number}/model" for number in range(5000)], "deep": deep, "command": "/b" * 100_000}
    places = Places(tree)
    assert places.without(f"at {deep} and /srv/3/model") == "at a and model"
    pattern = places._pattern
    assert pattern is not None
    assert len(pattern.pattern) < 1_000_000
