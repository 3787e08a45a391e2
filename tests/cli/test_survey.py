"""``bathyscope survey`` on a tiny model, in this process."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import bathyscope
from bathyscope.cli import main
from bathyscope.cli.commands.survey import default_out
from bathyscope.measures.registry import MEASURES
from bathyscope.runs.opening import open_run
from bathyscope.wavefront.engine import Wavefront


def asked(model: Path, prompts: Path | str, out: Path, *more: str) -> list[str]:
    return ["survey", str(model), "--prompts", str(prompts), "--out", str(out), *more]


def measures_of(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "manifest.json").read_text())["identity"]["measures"]
    return found


def test_results_on_stdout_and_messages_on_stderr(
    model_folder: Path, prompts_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert main(asked(model_folder, prompts_file, out, "--measures", "lens,drop")) == 0
    printed, said = capsys.readouterr()
    assert "3 prompts, 45 tokens, float32" in printed
    assert "lens: kl_lens_final" in printed
    assert printed.rstrip().endswith(f"Run: {out}")
    assert f"the run goes to {out}" in said
    assert "the run goes to" not in printed
    assert open_run(out).measures == ("lens", "drop", "noise")


def test_quiet_leaves_stderr_empty(
    model_folder: Path, prompts_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(asked(model_folder, prompts_file, tmp_path / "run", "--measures", "lens", "--quiet")) == 0
    assert capsys.readouterr().err == ""


def test_json_is_the_whole_of_stdout_and_has_no_nan(
    model_folder: Path, prompts_file: Path, run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # the run is finished, so that this only reads it; a random model has no crossing for some estimator
    flags = ("--json", "--effective-depth.resamples", "20")
    assert main(asked(model_folder, prompts_file, run_folder, *flags)) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
    assert found["run"] == str(run_folder)
    assert found["prompts"] == 3
    assert set(found["measures"]) == {"residual", "lens", "skip", "drop", "tokens", "effective_depth", "noise"}
    depth = open_run(run_folder)["effective_depth"]
    assert [row["estimator"] for row in found["effective_depth"]] == list(depth["estimator"].values)
    for row, value in zip(found["effective_depth"], depth["depth"].values):
        assert row["depth"] == (None if value != value else value)


def test_every_flag_of_a_measure_reaches_the_run(model_folder: Path, prompts_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    flags = [
        "--measures",
        "lens,skip,drop",
        "--lens.k",
        "3",
        "--lens.norm",
        "recompute,frozen",
        "--lens.no-bias",
    ]
    flags += ["--skip.protect-first", "0", "--skip.positions", "[[4, 9], [11], []]", "--drop.blocks", "0,4"]
    assert main(asked(model_folder, prompts_file, out, "--seed", "5", *flags)) == 0
    found = measures_of(out)
    assert found["lens"] == {
        "k": 3,
        "norm": ["recompute", "frozen"],
        "bias": False,
        "top_p": 0.9,
        "positions": "all",
    }
    assert found["skip"] == {
        "parts": ["block"],
        "protect_first": 0,
        "positions": [[4, 9], [11], []],
        "axis": "tokens",
    }
    assert found["drop"]["blocks"] == [0, 4]
    assert open_run(out).manifest["identity"]["seed"] == 5


def test_places_by_name_are_a_json_object_or_a_flag_of_their_own(
    model_folder: Path, prompts_file: Path, tmp_path: Path
) -> None:
    by_object, by_name = tmp_path / "object", tmp_path / "name"
    typed = [(by_object, ["--skip.positions", '{"at": [3, -2]}']), (by_name, ["--skip.positions.at", "[3, -2]"])]
    for out, flags in typed:
        assert main(asked(model_folder, prompts_file, out, "--measures", "skip", *flags)) == 0
        assert open_run(out)["skip"]["place"].values.tolist() == ["3", "-2"]
    np.testing.assert_array_equal(open_run(by_object)["skip"].effect_at, open_run(by_name)["skip"].effect_at)


def test_a_flag_overrides_the_recipe_and_the_recipe_a_preset(
    model_folder: Path, prompts_file: Path, tmp_path: Path
) -> None:
    recipe = tmp_path / "survey.yaml"
    recipe.write_text(
        f"model: {model_folder}\nprompts: {prompts_file}\nout: {tmp_path / 'recipe'}\npreset: lad2024\n"
        "measures: [lens, repeat]\nseed: 3\nlens: {k: 4, top_p: 0.5}\nrepeat: {length: 2}\n"
    )
    assert main(["survey", "--recipe", str(recipe)]) == 0
    assert main(["survey", "--recipe", str(recipe), "--lens.k", "2", "--out", str(tmp_path / "flags")]) == 0
    by_recipe, by_flags = measures_of(tmp_path / "recipe"), measures_of(tmp_path / "flags")
    assert by_recipe["lens"] == {"k": 4, "norm": ["recompute"], "bias": True, "top_p": 0.5, "positions": "inner"}
    assert by_flags["lens"] == {**by_recipe["lens"], "k": 2}
    assert by_recipe["repeat"] == by_flags["repeat"] == {"length": 2, "times": 1, "positions": "next"}
    assert open_run(tmp_path / "recipe").manifest["identity"]["seed"] == 3


def test_an_interrupted_growth_says_the_command_that_grows(
    model_folder: Path,
    prompts_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Not that of the run as it was, whichever moment it is stopped at."""
    out = tmp_path / "run"
    assert main(asked(model_folder, prompts_file, out, "--measures", "lens", "--quiet")) == 0
    arguments = asked(model_folder, prompts_file, out, "--measures", "lens,drop", "--grow", "--quiet")
    again = f"To resume: {shlex.join(['bathyscope', *arguments])}\n"
    for place, words in (
        ((bathyscope, "survey"), f"before anything new was computed; the run in {out} is unchanged."),
        ((Wavefront, "run_convoy"), f"0 of 1 shards of the larger run are saved in {out}."),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(*place, stop)
            capsys.readouterr()
            assert main(arguments) == 130
            assert re.fullmatch(rf"Interrupted:? {re.escape(f'{words} {again}')}", capsys.readouterr().err)


def stop(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def test_an_interrupted_survey_says_what_is_kept_and_resumes_to_the_same_numbers(
    model_folder: Path,
    prompts_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    flags = ("--measures", "drop", "--batch-tokens", "20", "--quiet")
    arguments = asked(model_folder, prompts_file, tmp_path / "run", *flags)
    calls, run = [], Wavefront.run_convoy

    def interrupted(wave: Wavefront, *values: Any, **named: Any) -> None:
        calls.append(wave)
        if len(calls) == 2:
            raise KeyboardInterrupt
        run(wave, *values, **named)

    monkeypatch.setattr(Wavefront, "run_convoy", interrupted)
    assert main(arguments) == 130
    said = capsys.readouterr().err
    again = shlex.join(["bathyscope", *arguments])
    assert said == f"Interrupted: 1 of 3 shards are saved in {tmp_path / 'run'}. To resume: {again}\n"
    monkeypatch.undo()
    assert main(shlex.split(again)[1:]) == 0
    assert main(asked(model_folder, prompts_file, tmp_path / "whole", *flags)) == 0
    xr.testing.assert_identical(open_run(tmp_path / "run")["drop"], open_run(tmp_path / "whole")["drop"])


def test_interrupted_before_any_shard(
    model_folder: Path,
    prompts_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("bathyscope.surveying.engines.load", interrupted)
    assert main(asked(model_folder, prompts_file, tmp_path / "run", "--quiet")) == 130
    again = shlex.join(["bathyscope", *asked(model_folder, prompts_file, tmp_path / "run", "--quiet")])
    message = capsys.readouterr().err
    assert message == f"Interrupted before anything was computed; nothing is saved. To resume: {again}\n"


def test_bad_input_gives_its_exit_code_and_one_message(
    model_folder: Path, prompts_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty, file = tmp_path / "empty.jsonl", tmp_path / "file"
    empty.touch()
    file.touch()
    bare = tmp_path / "bare"
    bare.mkdir()
    out = tmp_path / "run"
    cases = [
        (asked(model_folder, prompts_file, out, "--measures", "lenz"), 2, "Did you mean 'lens'"),
        (asked(model_folder, prompts_file, out, "--swap.blocks", "1"), 2, "swap is not among the measures"),
        (asked(model_folder, prompts_file, out, "--measures", "drop", "--drop.blocks", "9"), 2, "block 9"),
        (
            asked(model_folder, prompts_file, out, "--measures", "drop", "--drop.blocks", "x"),
            2,
            "whole number",
        ),
        (asked(model_folder, prompts_file, out, "--preset", "hu205"), 2, "Did you mean 'hu2025'"),
        (["survey", str(model_folder), "--out", str(out)], 2, "No prompts given"),
        (["survey", "--prompts", str(prompts_file)], 2, "No model given"),
        (asked(model_folder, empty, out), 3, "empty.jsonl"),
        (asked(model_folder, "gsm9k:10", out), 3, "Did you mean 'gsm8k'"),
        (asked(tmp_path / "missing", prompts_file, out), 4, "There is no folder"),
        (asked(bare, prompts_file, out), 4, "without a config.json"),
        (asked(model_folder, prompts_file, out, "--dtype", "float31"), 4, "Unknown dtype"),
        (asked(model_folder, prompts_file, file), 5, "is a file; a run needs a folder"),
        (asked(model_folder, prompts_file, file / "run"), 5, "cannot hold a run"),
        (asked(model_folder, prompts_file, model_folder), 5, "is no run but not empty either"),
    ]
    for arguments, code, words in cases:
        assert main([*arguments, "--quiet"]) == code, arguments
        printed, said = capsys.readouterr()
        assert printed == ""
        first = next(line for line in said.splitlines() if not line.startswith("warning: "))
        assert first.startswith("error: ")
        assert words in said
        assert "Traceback" not in said
    assert not out.exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--prompts", "gms8k:3"), "'gms8k' is neither a data set nor a prompt file. Did you mean 'gsm8k'?"),
        (("--prompts", "none.jsonl"), "none.jsonl does not exist"),
        (("--prompts", "none/:3"), "There is no folder 'none'"),
        (("--memory", "20 apples"), "memory='20 apples' is no amount of memory; give it as 20GB, 512MiB"),
        (("--part", "3of16"), "'3of16'"),
        (("--control", "untrainde"), "'untrainde'"),
        (("--workers", "2"), "workers=2 is of an engine; give engine='ray' (--engine ray), or leave workers out."),
    ],
)
def test_what_is_wrong_with_a_survey_is_said_before_the_model_is_loaded(
    flags: tuple[str, ...],
    message: str,
    model_folder: Path,
    prompts_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Which takes minutes for a large one."""
    monkeypatch.setattr("bathyscope.model.loading.read_checkpoint", lambda *_: pytest.fail("it was loaded"))
    assert main(asked(model_folder, prompts_file, tmp_path / "run", *flags)) == (3 if "--prompts" in flags else 2)
    assert message in capsys.readouterr().err
    assert main(asked(model_folder, prompts_file, prompts_file.parent)) == 5
    assert "is no run but not empty either" in capsys.readouterr().err


def test_the_default_folder_is_named_by_model_and_prompts() -> None:
    assert default_out("Qwen/Qwen2.5-1.5B", "gsm8k:10") == "runs/Qwen2.5-1.5B-gsm8k-10"
    assert default_out("./models/tiny/", "a/b/stories.txt:5?chars=100") == "runs/tiny-stories.txt-5-chars-100"
    assert default_out("gpt2", ["one text"]) == "runs/gpt2-given"
    union = [{"source": "mquake?per_level=20@a+b.jsonl"}, {"source": "sums:5"}]
    assert default_out("gpt2", union) == "runs/gpt2-mquake-per_level-20-sums-5"


def test_prompts_given_several_times_are_one_union(model_folder: Path, prompts_file: Path, tmp_path: Path) -> None:
    again = tmp_path / "a + b?c.jsonl"
    again.write_text('{"text": "the old road", "id": "own", "hops": 2}\n')
    out = tmp_path / "run"
    arguments = asked(model_folder, f"{prompts_file}:2", out, "--measures", "lens", "--quiet")
    assert main([*arguments, "--prompts", str(again)]) == 0
    run = open_run(out)
    assert run["lens"]["dataset"].values.tolist() == ["house.jsonl:2", "house.jsonl:2", "a + b?c.jsonl"]
    assert run["lens"]["prompt_id"].values.tolist() == ["p0", "p1", "own"]
    assert run.manifest["identity"]["dataset"] == "house.jsonl:2 + a + b?c.jsonl"
    recipe = tmp_path / "union.yaml"
    sources = f"[{{source: '{prompts_file}:2'}}, {{source: '{again}'}}]"
    recipe.write_text(f"model: {model_folder}\nmeasures: lens\nprompts: {sources}\n")
    assert main(["survey", "--recipe", str(recipe), "--out", str(tmp_path / "recipe"), "--quiet"]) == 0
    xr.testing.assert_identical(open_run(tmp_path / "recipe")["lens"], run["lens"])


def test_measures_given_several_times_are_all_taken(model_folder: Path, prompts_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    measures = ["--measures", "lens", "--measures", "residual,lens"]
    assert (
        main(["survey", str(model_folder), "--prompts", str(prompts_file), *measures, "--out", str(out), "--quiet"])
        == 0
    )
    assert set(open_run(out).measures) == {"lens", "residual"}


def test_one_wrong_source_among_several_is_named(
    model_folder: Path, prompts_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = asked(model_folder, prompts_file, tmp_path / "run", "--prompts", "mquake:3?hop=2", "--quiet")
    assert main(arguments) == 3
    assert "unknown option 'hop'. Did you mean 'hops'?" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_prompts_of_a_recipe_may_be_texts(model_folder: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "texts.yaml"
    recipe.write_text(f"model: {model_folder}\nmeasures: lens\nprompts: [the old house, a road in it]\n")
    assert main(["survey", "--recipe", str(recipe), "--out", str(tmp_path / "run"), "--quiet"]) == 0
    assert list(open_run(tmp_path / "run")["lens"]["n_tokens"].values) == [3, 4]


@pytest.fixture
def own_measure(tmp_path: Path) -> Iterator[str]:
    """``file.py:Class`` of the measure that the page about own measures shows."""
    page = Path(__file__).resolve().parents[2] / "docs" / "write_a_measure.md"
    code = re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)[0]
    (tmp_path / "strides.py").write_text(code, encoding="utf-8")
    yield f"{tmp_path / 'strides.py'}:Step"
    sys.modules.pop("strides", None)


@pytest.mark.parametrize("how", ["apart", "joined", "recipe", "recipe, flag"])
def test_options_of_a_measure_from_a_file_are_flags_and_keys_of_a_recipe(
    model_folder: Path, prompts_file: Path, tmp_path: Path, own_measure: str, how: str
) -> None:
    out, recipe = tmp_path / "run", tmp_path / "survey.yaml"
    if how.startswith("recipe"):
        recipe.write_text(f"measures: [lens, {own_measure}]\nstep: {{over: last}}\n", encoding="utf-8")
        more = ["--recipe", str(recipe)]
        # what is typed may be code, and a recipe by itself may not
        more += ["--measures", own_measure, "--step.over", "last"] if how == "recipe, flag" else ["--allow-code"]
    else:
        named = ["--measures", f"lens,{own_measure}"] if how == "apart" else [f"--measures={own_measure}"]
        more = [*named, "--step.over", "last"]
    assert main(asked(model_folder, prompts_file, out, *more)) == 0
    assert measures_of(out)["step"] == {"over": "last", "class": "strides:Step"}


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            ("--step.over", "lst"),
            'Invalid value "lst" for --step.over. Choose from: "mean", "last". Did you mean "last"',
        ),
        (("--step.ovr", "last"), "Unknown option: --step.ovr. Did you mean --step.over? See bathyscope survey --help."),
    ],
)
def test_a_wrong_option_of_a_measure_from_a_file_is_refused_in_one_sentence(
    tmp_path: Path, own_measure: str, capsys: pytest.CaptureFixture[str], flags: tuple[str, str], said: str
) -> None:
    assert main(asked(tmp_path, "problems:1", tmp_path / "run", "--measures", own_measure, *flags)) == 2
    printed, error = capsys.readouterr()
    assert printed == ""
    assert " ".join(error.split()).startswith(f"error: {said}")


@pytest.mark.parametrize("flag", ["--help", "--help-measures"])
def test_help_shows_options_of_a_measure_from_a_file(
    own_measure: str, capsys: pytest.CaptureFixture[str], flag: str
) -> None:
    assert main(["survey", flag, own_measure]) == 0
    assert "--step.over" in capsys.readouterr().out


def test_help_says_of_a_measure_without_options_that_it_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["survey", "--help", "gradient"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "gradient has no options. Norm of the loss's gradient at every boundary" in printed
    assert main(["survey", "--help", "drop"]) == 0
    assert "has no options" not in capsys.readouterr().out
    assert main(["survey", "--help-measures"]) == 0
    of_all = capsys.readouterr().out
    assert "--drop.blocks" in of_all
    without = [name for name, measure in MEASURES.items() if not fields(measure.options_type)]
    assert re.findall(r"^(\w+) has no options\.", of_all, re.MULTILINE) == without


def test_help_for_a_measure_that_is_not_there_names_a_near_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["survey", "--help-measures", "skp"]) == 2
    assert "Unknown measure 'skp'. Did you mean 'skip'?" in capsys.readouterr().err
