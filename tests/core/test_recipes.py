"""Recipes: what is read from the file, and what overrides it."""

from __future__ import annotations

from pathlib import Path

import pytest

import bathyscope
from bathyscope.cli.commands.survey import read_request
from bathyscope.core.recipes import code_of, overlay, read_recipe
from bathyscope.errors import OptionError
from bathyscope.measures.of.skip import SkipOptions


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "survey.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_overlay_replaces_one_option_and_keeps_its_neighbours() -> None:
    recipe = {"seed": 1, "lens": {"k": 4, "top_p": 0.5}, "out": "a"}
    assert overlay(recipe, {"lens": {"k": 9}, "out": "b", "drop": {"blocks": [1]}}) == {
        "seed": 1,
        "lens": {"k": 9, "top_p": 0.5},
        "out": "b",
        "drop": {"blocks": [1]},
    }
    assert recipe["lens"] == {"k": 4, "top_p": 0.5}


def test_an_empty_recipe_says_nothing(tmp_path: Path) -> None:
    assert read_recipe(written(tmp_path, "# nothing yet\n")) == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- model\n- prompts\n", "holds a list; write one argument a line"),
        ("model: [\n", "is no YAML"),
        ("model: m\nprompts: gsm8k:1\nseed: 1\nseed: 2\n", "'seed' is given twice (line 4); keep one"),
        ("model: m\nprompts: gsm8k:1\nseed: 1:30\n", "seed takes a whole number; '1:30' given"),
        ("model: m\nprompts: gsm8k:1\nseed: 1.5\n", "seed takes a whole number; 1.5 given"),
        ("model: m\nprompts: gsm8k:1\npromts: x\n", "Did you mean 'prompts'"),
        ("model: m\nprompts: gsm8k:1\nseed: many\n", "seed takes a whole number; 'many' given"),
        ("model: m\nprompts: gsm8k:1\nmeasures: [lens, 3]\n", "measures takes a text; 3 given"),
        ("model: m\nprompts: gsm8k:1\ntrust_remote_code: 1\n", "would run code (trust_remote_code: 1)"),
        ("model: m\nprompts: gsm8k:1\ndevice: 0\n", "device takes a text; 0 given"),
        ("model: m\nprompts: gsm8k:1\nprogress: false\n", "has no option 'progress'"),
        ("prompts: gsm8k:1\n", "No model given"),
        ("model: m\n", "No prompts given"),
    ],
)
def test_a_wrong_recipe_is_refused_with_the_reason(tmp_path: Path, text: str, words: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(OptionError) as caught:
        read_request(path, {})
    assert words in str(caught.value)


def test_a_missing_recipe_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"none\.yaml' cannot be read: No such file"):
        read_recipe(tmp_path / "none.yaml")


def test_arguments_go_to_the_call_they_belong_to(tmp_path: Path) -> None:
    path = written(
        tmp_path, "model: m\nrevision: main\nprompts: gsm8k:1\nmeasures: [lens, skip]\nskip: {parts: block}\n"
    )
    model, loading, surveying = read_request(path, {"dtype": "float32", "batch_tokens": 7})
    given = {name: value for name, value in loading.items() if value is not None}
    defaults = {"trust_remote_code": False, "placement": "auto", "stream": False}
    assert model == "m"
    assert given == {"revision": "main", "dtype": "float32", **defaults}
    given = {name: value for name, value in surveying.items() if value is not None}
    assert given == {
        "prompts": "gsm8k:1",
        "measures": "lens,skip",
        "out": "runs/m-gsm8k-1",
        "batch_tokens": 7,
        "add_special_tokens": True,
        "chat": False,
        "grow": False,
        "keep_text": True,
        "skip": SkipOptions(parts=("block",)),
    }


def test_a_recipe_runs_no_code_by_itself(tmp_path: Path) -> None:
    wobble = tmp_path / "mine.py"
    wobble.write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n", encoding="utf-8")
    for line, code in (
        (f"measures: [lens, '{wobble}:Wobble']", "mine.py:Wobble"),
        ("measures: lens,package.module:Wobble", "measures: package.module:Wobble"),
        ("trust_remote_code: true", "trust_remote_code: true"),
        ("trust_remote_code: 1", "trust_remote_code: 1"),
        ("engine: ray\naddress: 10.0.0.1:6379", "address: 10.0.0.1:6379"),
    ):
        recipe = written(tmp_path, f"model: m\nprompts: p.jsonl\n{line}\n")
        with pytest.raises(OptionError, match=r"would run code \(.*Read that code first") as caught:
            read_request(recipe, {})
        assert code in str(caught.value)
    assert not (tmp_path / "ran").exists()
    grid = written(tmp_path, "models: [{model: m, trust_remote_code: true}]\nprompts: [p.jsonl]\nmeasures: lens\n")
    with pytest.raises(OptionError, match=r"would run code \(trust_remote_code: true\)"):
        bathyscope.grid(grid, tmp_path / "grid", progress=False)


def test_what_is_typed_or_allowed_may_be_code(tmp_path: Path) -> None:
    recipe = written(tmp_path, "model: m\nprompts: p.jsonl\nmeasures: lens\ntrust_remote_code: true\n")
    _, loading, _ = read_request(recipe, {"trust_remote_code": True})
    assert loading["trust_remote_code"] is True
    _, loading, _ = read_request(recipe, {"trust_remote_code": False})
    assert loading["trust_remote_code"] is False
    _, loading, _ = read_request(recipe, {}, allow_code=True)
    assert loading["trust_remote_code"] is True
    off = written(tmp_path, "model: m\nprompts: p.jsonl\nmeasures: [lens]\ntrust_remote_code: false\n")
    assert read_request(off, {})[1]["trust_remote_code"] is False


def test_aliases_without_end_are_refused_in_a_short_sentence(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    for text in ("\n".join(lines), "a: &a [*a]"):
        with pytest.raises(OptionError, match="its aliases stand for more than 100,000 values; write fewer") as caught:
            read_recipe(written(tmp_path, text))
        assert len(str(caught.value)) < 400
    assert read_recipe(written(tmp_path, "lens: &k {k: 3}\njacobian_lens: {<<: *k}\n"))["jacobian_lens"] == {"k": 3}


@pytest.mark.parametrize("kind", ["!!set {'mine.py:W'}", "!!set {? 'mine.py:W'}", "!!omap [a: 'mine.py:W']"])
def test_no_kind_of_list_hides_code(tmp_path: Path, kind: str) -> None:
    recipe = written(tmp_path, f"model: m\nprompts: p.jsonl\nmeasures: {kind}\n")
    with pytest.raises(OptionError, match="is no kind of value here; write a list"):
        read_request(recipe, {})


@pytest.mark.parametrize("value", ["!!bool xyz", "!!int ''", "!!float ''", "!!timestamp 'x'", '"\\UFFFFFFFF"'])
def test_values_that_their_tags_do_not_allow_are_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(OptionError, match="is no YAML"):
        read_recipe(written(tmp_path, f"seed: {value}\n"))


@pytest.mark.parametrize(
    "measures",
    [[["mine.py:W"]], [{"name": "mine.py:W"}], {"mine.py:W": {"k": 1}}, [[["lens,mine.py:W"]]], {"m": "mine.py:W"}],
)
def test_a_measure_from_a_file_is_found_in_any_form(measures: object) -> None:
    assert code_of({"measures": measures}) == ["measures: mine.py:W"]
    assert code_of({"a": [{"measures": measures}]}) == ["measures: mine.py:W"]


def test_options_of_measures_are_no_code() -> None:
    assert code_of({"measures": {"jacobian_lens": {"prompts": "gsm8k:10"}}}) == []
    assert code_of({"measures": ["lens", 3, None], "jacobian_lens": {"prompts": "gsm8k:10"}}) == []


def test_a_recipe_is_no_larger_than_recipes_are(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text("a: [" + "1," * (1 << 19) + "1]")
    with pytest.raises(OptionError, match="cannot be read: it has 1 MiB, and at most 1 MiB are read"):
        read_recipe(tmp_path / "recipe.yaml")


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_a_recipe_in_another_encoding_is_said_to_be(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_bytes("model: café\n".encode(encoding))
    with pytest.raises(OptionError, match=r"recipe\.yaml' is not UTF-8 text \(.*\); convert it to UTF-8\."):
        read_recipe(path)
