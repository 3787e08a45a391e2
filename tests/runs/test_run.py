"""What a reader of a run sees: datasets, a table, a caption; and what an unfinished run says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import xarray as xr
from support.synthetic_runs import BLOCKS, bits, identity, length, shard, summary

from bathyscope.errors import OptionError, StoreError
from bathyscope.runs.opening import open_run
from bathyscope.runs.run import Run
from bathyscope.runs.table import tidy
from bathyscope.runs.writer import RunWriter

TOKENS = sum(length(p) for p in range(6))


@pytest.fixture(scope="module")
def run() -> Run:
    with RunWriter.open(None, identity()) as writer:
        for index in writer.missing:
            writer.write(index, shard(*identity()["plan"][index]))
        return writer.finish(summary(writer.merged()))


@pytest.fixture
def unfinished(tmp_path: Path) -> Path:
    with RunWriter.open(tmp_path / "run", identity()) as writer:
        for index in (2, 0):
            writer.write(index, shard(*identity()["plan"][index]))
    return tmp_path / "run"


def test_measures_are_datasets_of_the_tree(run: Run) -> None:
    assert run.measures == ("skip", "erasure", "effective_depth", "noise")
    assert isinstance(run.tree, xr.DataTree)
    assert bits(run["skip"]) == bits(run.tree["skip"].to_dataset())
    assert run["skip"].effect_all.dims == ("prompt", "part", "skipped", "block")
    assert run["skip"].sel(part="block").effect_all.shape == (6, 6, 6)


def test_without_a_measure_the_table_lists_what_there_is(run: Run) -> None:
    table = run.to_dataframe()
    assert table.columns.tolist() == ["measure", "variable", "dimensions", "units", "meaning"]
    assert list(dict.fromkeys(table["measure"])) == list(run.measures)


def test_a_run_is_a_collection_of_its_measures(run: Run) -> None:
    assert list(run) == ["skip", "erasure", "effective_depth", "noise"]
    assert "skip" in run
    assert "lens" not in run


def test_what_a_run_holds_is_changed_in_a_copy_alone(run: Run) -> None:
    with pytest.raises(ValueError, match="read-only"):
        run["skip"].effect_all.values[:] = 0
    changed = run["skip"].copy(deep=True)
    changed.effect_all.values[:] = 0
    assert bool((run["skip"].effect_all != 0).any())


def test_unknown_measure_is_refused_with_a_guess(run: Run) -> None:
    with pytest.raises(OptionError) as caught:
        run["skipp"]
    assert str(caught.value) == (
        "This run has no measure 'skipp'; it has skip, erasure, effective_depth, noise. Did you mean 'skip'?"
    )
    with pytest.raises(
        OptionError, match=r"^None of the chosen variables is of 'erasure'; they are of skip\. Choose one of 'erasure'"
    ):
        run.select(variables="effect_all")["erasure"]


def test_dataframe_is_the_tidy_table_of_the_measure(run: Run) -> None:
    assert run.to_dataframe("erasure").equals(tidy(run["erasure"]))
    table = run.to_dataframe("effective_depth")
    assert table["estimator"].tolist() == ["cosine", "kl"]
    assert table["reason"].tolist() == ["", "no crossing"]


def test_caption_names_model_data_counts_and_noise(run: Run) -> None:
    expected = f"tiny/llama on stories:6: 6 prompts, {TOKENS} tokens, float32; noise floor 1e-7 (skip); 0 elsewhere."
    assert run.caption() == expected


def test_caption_of_a_run_without_noise_and_token_counts() -> None:
    with RunWriter.open(None, identity(1)) as writer:
        writer.write(0, {"lens": xr.Dataset({"kl": (("prompt",), [0.0])})})
        run = writer.finish({})
    assert run.caption() == "tiny/llama on stories:1: 1 prompt, float32."


@pytest.mark.parametrize(
    "noise",
    [
        xr.Dataset({"skip": (("block",), [1e-7, 3e-7]), "drop": ((), 0.0)}),
        xr.Dataset(
            {"floor_prompt": (("prompt", "measure"), [[1e-7, 0.0], [3e-7, 0.0]])},
            {"measure": ["skip", "drop"]},
        ),
    ],
    ids=["a variable a measure", "unfinished: a value a prompt"],
)
def test_caption_takes_the_largest_noise_of_each_measure(run: Run, noise: xr.Dataset) -> None:
    other = Run(xr.DataTree.from_dict({"/noise": noise}), run.manifest)
    assert other.caption().endswith(", float32; noise floor 3e-7 (skip); 0 elsewhere.")


def test_below_float32_the_noise_floor_does_not_claim_to_hold_the_rounding(run: Run) -> None:
    made = {**identity(), "dtype": "bfloat16"}
    with RunWriter.open(None, made) as writer:
        for index in writer.missing:
            writer.write(index, shard(*made["plan"][index]))
        low = writer.finish(summary(writer.merged()))
    assert (run.noise_holds, low.noise_holds) == (True, False)
    assert low.caption().endswith(
        ", bfloat16; noise floor 1e-7 (skip); 0 elsewhere (without the rounding of bfloat16 itself)."
    )


def test_identity_is_typed(run: Run) -> None:
    assert run.identity.model == run.manifest["identity"]["model"] == "tiny/llama"
    assert run.identity.plan == ((0, 2), (2, 4), (4, 6))


def test_number_of_blocks_is_the_manifests_or_else_that_of_the_datasets(run: Run) -> None:
    assert run.n_blocks == BLOCKS
    told = json.loads(json.dumps(run.manifest))
    told["identity"]["n_blocks"] = None
    assert Run(run.tree, told).n_blocks == BLOCKS
    lens = xr.Dataset({"kl": (("prompt", "boundary"), [[1.0, 0.5, 0.0]])})
    assert Run(xr.DataTree.from_dict({"/lens": lens}), told).n_blocks == 2
    with pytest.raises(StoreError, match=r"its measures \(noise\) do not tell how many blocks the model has"):
        _ = Run(xr.DataTree.from_dict({"/noise": run["noise"]}), told).n_blocks


def test_run_of_the_first_schema_opens_with_its_numbers() -> None:
    old = open_run(Path(__file__).parent / "fixtures" / "run-of-schema-1")
    assert old.manifest["schema"] == 1
    assert old.identity.model == "LlamaForCausalLM"
    assert old.n_blocks == 2
    assert old.measures == ("direct", "noise")
    assert old["direct"]["prompt_id"].values.tolist() == ["first", "second", "third"]
    assert old["direct"]["hops"].values.tolist() == [1, 2, 1]
    largest = old["direct"]["effect_all"].sel(reduction="max", skipped=0, block=1)
    assert largest.values.tolist() == [1.9983590841293335, 2.5993597507476807, 1.1945658922195435]
    assert old["noise"]["floor"].values.tolist() == [pytest.approx(2.4e-7, rel=0.05)]


def test_repr_is_one_line(run: Run) -> None:
    assert repr(run) == f"<Run {run.caption()} Measures: skip, erasure, effective_depth, noise. in memory>"


def test_html_is_escaped_and_short(run: Run) -> None:
    manifest = json.loads(json.dumps(run.manifest))
    manifest["identity"]["model"] = "<script>alert(1)</script>"
    shown = Run(run.tree, manifest)._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert "effect_all (prompt, part, skipped, block)" in shown
    assert len(shown) < 8000


def test_unfinished_run_is_refused_with_counts_and_the_way_on(unfinished: Path) -> None:
    with pytest.raises(StoreError) as caught:
        open_run(unfinished)
    assert str(caught.value) == (
        f"The run in {str(unfinished)!r} is not finished: 2 of 3 shards are there. Resume it by "
        f"repeating the survey of 'tiny/llama' on 'stories:6' with out={str(unfinished)!r}, or read what is "
        f"there with bathyscope.open({str(unfinished)!r}, partial=True) (--partial). "
        "Parts (part=..., --part) are joined instead (bathyscope survey join)."
    )


@pytest.mark.parametrize(("name", "what"), [("evaluation.json", "an evaluation"), ("prune.json", "a plan")])
def test_a_folder_of_another_kind_says_what_opens_it(tmp_path: Path, name: str, what: str) -> None:
    (tmp_path / name).write_text("{}")
    with pytest.raises(
        StoreError, match=rf"^There is no run in .* It holds {what}, which bathyscope\.open\('.*'\) opens"
    ):
        open_run(tmp_path)


def test_unfinished_run_names_the_command_that_began_it(tmp_path: Path) -> None:
    with RunWriter.open(tmp_path, identity(), {"command": "bathyscope survey tiny/llama --out x"}):
        pass
    with pytest.raises(
        StoreError,
        match=r"0 of 3 shards .* running again what began it, with --out .* "
        r"\(in the words of whoever wrote this run; read it first\): bathyscope survey tiny/llama --out x\.$",
    ):
        open_run(tmp_path)
    with pytest.raises(StoreError, match="0 of 3 shards"):
        open_run(tmp_path, partial=True)


def test_partial_run_holds_the_finished_prompts_in_order(unfinished: Path) -> None:
    run = open_run(unfinished, partial=True)
    assert run.measures == ("skip", "erasure")
    assert run["skip"].prompt_id.values.tolist() == ["story-0", "story-1", "story-4", "story-5"]
    tokens = sum(length(p) for p in (0, 1, 4, 5))
    assert run.caption() == f"tiny/llama on stories:6: 4 of 6 prompts, {tokens} tokens, float32."


def test_all_shards_without_run_level_results_is_unfinished(tmp_path: Path) -> None:
    with RunWriter.open(tmp_path, identity(2)) as writer:
        writer.write(0, shard(0, 2))
    with pytest.raises(StoreError, match="1 of 1 shards are there, but not the run-level results"):
        open_run(tmp_path)
    assert open_run(tmp_path, partial=True).measures == ("skip", "erasure")


def test_finished_run_that_lost_a_shard_is_unfinished(tmp_path: Path) -> None:
    with RunWriter.open(tmp_path, identity(2)) as writer:
        writer.write(0, shard(0, 2))
        writer.finish({})
    (tmp_path / "shard-00000.nc").unlink()
    with pytest.raises(StoreError, match="is not finished: 0 of 1 shards are there"):
        open_run(tmp_path)


def test_altered_shard_is_refused_also_in_a_partial_run(unfinished: Path) -> None:
    (unfinished / "shard-00002.nc").write_bytes(b"altered")
    with pytest.raises(StoreError, match=r"shard-00002\.nc' is not the file that was written"):
        open_run(unfinished, partial=True)


@pytest.mark.parametrize("path", ["nowhere", ".", "file"])
def test_what_is_no_run_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        StoreError,
        match=r"There is no run in .*: manifest\.json cannot be read .*Give the folder that a survey",
    ):
        open_run(tmp_path / path)


@pytest.mark.parametrize(
    ("tree", "manifest", "message"),
    [
        (None, None, "Run: tree takes labelled arrays .*; None given"),
        (xr.DataTree(), None, "Run: manifest takes the content of a run's manifest.json, a dict .*; None given"),
        (xr.DataTree(), {"record": {}}, "a dict with an identity; .'record': .* given. Take runs from bathyscope.surv"),
    ],
)
def test_a_run_made_of_something_else_is_refused_when_it_is_made(tree: object, manifest: object, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Run(tree, manifest)  # type: ignore[arg-type]
