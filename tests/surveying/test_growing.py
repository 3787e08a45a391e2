"""A run that grows, against the run that is asked for at once: the same files, and only what is new is computed."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import waves, zoo
from support.altered import counted_tokens
from support.interrupting import interrupted_after
from support.rounding import assert_same_but_rounding

import bathyscope
from bathyscope import OptionError, Prompt, StoreError
from bathyscope.runs.folder import Folder
from bathyscope.runs.growth import GROWING
from bathyscope.wavefront.engine import Wavefront

pytestmark = pytest.mark.filterwarnings("ignore:(skip|direct|attention_locality|integrated_gradients|erasure). ")

LENGTHS = (20, 9, 21, 26, 9, 15, 30)
"""The last prompt but two has room in a batch of the second; the last one makes dimensions longer."""
MEASURES = ("lens", "drop", "tokens")


def prompts(count: int = len(LENGTHS)) -> list[Prompt]:
    ids = zoo.prompts(zoo.build("llama"), LENGTHS)[:count]
    return [Prompt(ids=own, answer_tokens=2, labels={"steps": n}) for n, own in enumerate(ids)]


def surveyed(out: Path | None, count: int = 5, measures: Any = MEASURES, **options: Any) -> bathyscope.Run:
    """A survey of the tiny Llama on the first prompts; shards of two or three of them."""
    options.setdefault("batch_tokens", 52)
    return bathyscope.survey(waves.loaded("llama"), prompts(count), measures, out, progress=False, **options)


def files(run: bathyscope.Run) -> dict[str, str]:
    """SHA-256 of every file of a run by what it is, whatever it is called."""
    record = run.manifest["record"]
    kept = {f"shard {entry['index']}": entry["sha256"] for entry in record["shards"]}
    return {**kept, "derived": record["derived"]["sha256"], "prompts": record["files"]["prompts"]["sha256"]}


@pytest.fixture
def calls() -> Iterator[list[int]]:
    """Tokens in every call of a block, from now on."""
    with counted_tokens(waves.loaded("llama")) as calls_so_far:
        yield calls_so_far


@pytest.fixture(scope="module")
def at_once(tmp_path_factory: pytest.TempPathFactory) -> bathyscope.Run:
    return surveyed(tmp_path_factory.mktemp("at-once") / "run", 7)


@pytest.mark.parametrize(
    ("count", "measures"),
    [
        pytest.param(7, ("lens", "tokens"), marks=pytest.mark.thorough),
        pytest.param(5, MEASURES, marks=pytest.mark.thorough),
        (3, ("lens", "drop")),
    ],
)
def test_a_grown_run_is_the_run_asked_for_at_once(
    count: int, measures: tuple[str, ...], at_once: bathyscope.Run, tmp_path: Path
) -> None:
    surveyed(tmp_path / "run", count, measures)
    grown = surveyed(tmp_path / "run", 7, grow=True)
    assert files(grown) == files(at_once), "every file to the last bit"
    assert grown.manifest["identity"] == at_once.manifest["identity"]
    record = grown.manifest["record"]
    listed = {entry["file"] for entry in (*record["shards"], record["derived"], *record["files"].values())}
    there = {path.name for path in (tmp_path / "run").iterdir() if not path.name.startswith(".")}
    assert there == {"manifest.json", *listed}, "nothing is left of the smaller run"
    assert grown.manifest["record"]["notes"]["grown"][0]["prompts"] == count
    assert files(bathyscope.open(tmp_path / "run")) == files(at_once)


def test_only_new_measures_are_computed(tmp_path: Path, calls: list[int]) -> None:
    surveyed(tmp_path / "run", measures=["lens", "drop"])
    calls.clear()
    surveyed(None, measures=["swap"])
    alone = calls.copy()
    calls.clear()
    surveyed(tmp_path / "run", measures=["lens", "drop", "swap"], grow=True)
    assert calls == alone != []


THOROUGH = (
    "lfm2",
    "falcon_h1",
    "jamba",
    "kimi_linear",
    "olmo_hybrid",
    "qwen3_next",
    "recurrent_gemma",
    "rwkv",
    "xlstm",
)


@pytest.mark.parametrize(
    "family",
    ["llama", "mixtral", "mamba2", "qwen3_5", *(pytest.param(name, marks=pytest.mark.thorough) for name in THOROUGH)],
)
def test_a_new_measure_differs_by_rounding_at_most(family: str, tmp_path: Path) -> None:
    """It is computed in calls with fewer rows than those of the survey at once."""
    hf = zoo.build(family)
    given = [Prompt(ids=ids, answer_tokens=2) for ids in zoo.prompts(hf, (14, 9, 12))]
    model = bathyscope.load(hf)
    both = ["drop", "skip"]
    bathyscope.survey(model, given, ["drop"], tmp_path / "run", progress=False)
    grown = bathyscope.survey(model, given, both, tmp_path / "run", progress=False, grow=True)
    once = bathyscope.survey(model, given, both, progress=False)
    for name in both:
        for variable, values in once[name].variables.items():
            if values.dtype.kind == "f":
                assert_same_but_rounding(grown[name][variable], values, hf, f"{name}.{variable}")


def test_only_new_prompts_are_computed(tmp_path: Path, calls: list[int]) -> None:
    """Of seven prompts two are new, in a shard that holds one of before too."""
    measures = ["lens", "drop"]
    surveyed(tmp_path / "run", 5, measures)
    calls.clear()
    bathyscope.survey(waves.loaded("llama"), prompts()[5:], measures, progress=False, batch_tokens=52)
    alone = sorted(calls)
    calls.clear()
    grown = surveyed(tmp_path / "run", 7, measures, grow=True)
    assert sorted(calls) == alone != []
    assert grown.identity.plan[-1] != (5, 7), "a shard goes on"


def test_what_is_derived_needs_no_block(tmp_path: Path, calls: list[int]) -> None:
    surveyed(tmp_path / "run", measures=["residual", "lens", "skip"])
    calls.clear()
    assert "effective_depth" in surveyed(tmp_path / "run", measures=["effective_depth"], grow=True)
    assert calls == []


def test_measures_that_look_at_all_prompts_are_computed_anew(tmp_path: Path) -> None:
    """Erasure replaces by the mean over all prompts, cka draws tokens of all; depth_score's answers get longer."""
    measures = ["erasure", "cka", "depth_score"]
    at_once = surveyed(tmp_path / "at-once", measures=measures)
    surveyed(tmp_path / "run", 4, measures)
    assert files(surveyed(tmp_path / "run", measures=measures, grow=True)) == files(at_once)


def test_an_interrupted_growth_leaves_the_run_and_goes_on(
    at_once: bathyscope.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = files(surveyed(tmp_path / "run"))
    with interrupted_after(1):
        surveyed(tmp_path / "run", 7, grow=True)
    assert files(bathyscope.open(tmp_path / "run")) == small
    assert sorted(path.name for path in (tmp_path / "run" / GROWING).glob("shard*")) == [
        "shard-00000.nc",
        "shard-00001.nc",
    ]
    with pytest.raises(StoreError, match="is growing to another survey than is asked for:\n  prompt_hash: growth has"):
        surveyed(tmp_path / "run", 6, grow=True)
    with monkeypatch.context() as patch:  # neither is the last step ever half done
        patch.setattr(Folder, "save", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(StoreError, match="No space left"):
            surveyed(tmp_path / "run", 7, grow=True)
    assert files(bathyscope.open(tmp_path / "run")) == small
    assert files(surveyed(tmp_path / "run", 7, grow=True)) == files(at_once)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small") / "run"
    surveyed(folder, 3, ["residual", "lens"], batch_tokens=None)
    return folder


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        (
            {"measures": ["residual", "lens", "drop"]},
            ["is a part of what is asked for, which also has the measure drop"],
        ),
        ({"count": 5}, ["also has 2 further prompts", "grow=True (--grow)"]),
        ({"measures": ["lens"]}, ["belongs to another configuration", "measures.residual: run has"]),
        ({"measures": ["lens"], "grow": True}, ["cannot grow", "measures.residual: run has", "not asked for"]),
        ({"count": 5, "seed": 1, "grow": True}, ["cannot grow", "seed: run has 0, asked for 1"]),
        ({"count": 5, "lens": {"k": 4}, "grow": True}, ["measures.lens.k: run has 5, asked for 4"]),
        ({"count": 2, "grow": True}, ["prompts: the run's 3 are not the first of the 2 asked for"]),
        ({"count": 5, "batch_tokens": 9, "grow": True}, ["batch_tokens: run has"]),
        ({"count": 5, "out": None, "grow": True}, ["lets a run in a folder grow"]),
        ({"count": 5, "part": "1/1", "grow": True}, ["this needs a whole run", "part='1/1' do not go together"]),
    ],
)
def test_what_is_no_growth_is_refused_before_any_compute(
    changes: dict[str, Any], lines: list[str], small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Wavefront, "run_convoy", lambda *_, **__: pytest.fail("a block ran"))
    call = {"out": small, "count": 3, "measures": ["residual", "lens"], "batch_tokens": None, **changes}
    with pytest.raises((StoreError, OptionError)) as caught:
        surveyed(**call)
    for line in lines:
        assert line in str(caught.value)


def test_other_prompts_before_the_kept_ones_are_refused(small: Path) -> None:
    with pytest.raises(StoreError, match="the run's 3 are not the first of the 4 asked for"):
        bathyscope.survey(waves.loaded("llama"), prompts(5)[1:], ["residual", "lens"], small, progress=False, grow=True)


def test_a_run_of_other_versions_does_not_grow(small: Path, tmp_path: Path) -> None:
    bathyscope.open(small).save(tmp_path / "run")
    manifest = tmp_path / "run" / "manifest.json"
    tree = json.loads(manifest.read_text())
    tree["record"]["versions"]["torch"] = "1.0"
    manifest.write_text(json.dumps(tree))
    with pytest.raises(StoreError, match=r"torch: run has 1\.0, installed is"):
        surveyed(tmp_path / "run", 5, ["residual", "lens"], batch_tokens=None, grow=True)


@pytest.mark.parametrize("options", [{"grow": True}, {"until": 0.01}], ids=["grow", "until"])
def test_nothing_is_said_against_controls_that_are_about_to_grow(tmp_path: Path, options: dict[str, Any]) -> None:
    call: dict[str, Any] = {"measures": ["lens", "skip"], "control": "untrained:2"}
    surveyed(tmp_path / "run", 3, **call)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="The control")
        grown = surveyed(tmp_path / "run", 5, **call, **options)
    assert [run.identity.prompts for run in (grown, *grown.controls.values())] == [5, 5, 5]
    # and it is the run that reading it again gives, controls and all
    again = bathyscope.open(tmp_path / "run")
    assert again.verdict.text == grown.verdict.text
    assert "Against 2 untrained models" in again.verdict.text


def test_controls_grow_with_their_run(tmp_path: Path) -> None:
    call: dict[str, Any] = {"measures": ["lens"], "control": "shuffled_text"}
    surveyed(tmp_path / "run", 2, **call)
    with pytest.raises(OptionError, match="would not grow with it: shuffled_text-0"):
        surveyed(tmp_path / "run", 3, ["lens"], grow=True)
    grown = surveyed(tmp_path / "run", 3, grow=True, **call)
    assert [run.identity.prompts for run in (grown, *grown.controls.values())] == [3, 3]
    at_once = surveyed(tmp_path / "at-once", 3, **call)
    assert files(grown.controls["shuffled_text-0"]) == files(at_once.controls["shuffled_text-0"])


def test_a_run_without_a_word_of_its_shards_goes_on_with_its_own(tmp_path: Path, calls: list[int]) -> None:
    """The default depends on how many measures there are, and a run keeps to what it began with."""
    surveyed(tmp_path / "run", 3, ["lens"], batch_tokens=16)
    calls.clear()
    assert surveyed(tmp_path / "run", 3, ["lens"], batch_tokens=None).identity.batch_tokens == 16
    assert calls == []


def test_a_run_does_not_grow_behind_a_link(tmp_path: Path) -> None:
    surveyed(tmp_path / "run", 3)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run" / GROWING).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match=r"growing' is a link, and a run grows in a folder of its own\. Remove it"):
        surveyed(tmp_path / "run", 5, grow=True)
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("options", [{"grow": True}, {"grow": True, "control": "untrained"}])
def test_a_run_does_not_grow_next_to_controls_behind_a_link(
    options: dict[str, Any], tmp_path: Path, calls: list[int]
) -> None:
    """What lies there is not named, and nothing is computed before that is said."""
    surveyed(tmp_path / "run", 3)
    (tmp_path / "elsewhere" / "mine").mkdir(parents=True)
    (tmp_path / "run" / "controls").symlink_to(tmp_path / "elsewhere")
    calls.clear()
    with pytest.raises(StoreError, match=r"controls' is a link, and the controls of a run are folders") as caught:
        surveyed(tmp_path / "run", 5, **options)
    assert "mine" not in str(caught.value)
    assert calls == []


@pytest.mark.parametrize("name", ["derived.nc", "shard-00001.nc"])
@pytest.mark.parametrize("grow", [True, False])
def test_a_folder_in_place_of_a_file_is_said_before_anything_is_computed(
    name: str, grow: bool, tmp_path: Path, calls: list[int]
) -> None:
    surveyed(tmp_path / "run", 5)
    (tmp_path / "run" / name).unlink()
    (tmp_path / "run" / name).mkdir()
    calls.clear()
    with pytest.raises(
        StoreError, match=rf"{name}' is a folder, and a run has a file of that name\. Move it elsewhere"
    ):
        surveyed(tmp_path / "run", 7 if grow else 5, grow=grow)
    assert calls == []
