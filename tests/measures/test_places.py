"""Places that a person names: how they are found, and that results of each are one forward's by hand."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import naive, naive_erasure, naive_patching, waves, zoo
from support.piece_tokenizer import piece_tokenizer

import bathyscope
from bathyscope.cli import main
from bathyscope.errors import OptionError
from bathyscope.measures.base import ModelFacts
from bathyscope.measures.places import NamedPlaces, as_places, as_positions, find_places
from bathyscope.pages.figures.kit.lines import curves_of
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.figures.registry import FIGURES
from bathyscope.prompts.prompt import Prompt, TokenizedPrompt

CLOSE = 2e-6
NAMES = ("llama", "gpt2", "gemma2", "gemma3", "lfm2")
AT = {"at": [3, -4, 5]}
STARTS = (3, 5, 5)
"""Of the places of a prompt of nine tokens."""
TOKENIZER = piece_tokenizer()


def facts(*, keeps_text: bool = True, has_tokenizer: bool = True) -> ModelFacts:
    model = waves.loaded("llama")
    return ModelFacts(model.anatomy, model.checks, TOKENIZER if has_tokenizer else None, keeps_text)


def read(text: str, name: str = "0", **labels: Any) -> TokenizedPrompt:
    return TokenizedPrompt(name, tuple(TOKENIZER(text)["input_ids"]), labels=labels)


def tokens_at(at: Any, *prompts: TokenizedPrompt, **known: Any) -> list[list[list[int]]]:
    places = as_places({"at": at}, "erasure")
    assert places is not None
    return [[list(place.tokens) for place in own] for own in find_places(places, prompts, facts(**known), "erasure")]


def test_places_are_found_by_index_text_and_label() -> None:
    # one by ka ##la ##ta bass
    prompt = read("one by kalata bass", city="bass", number=2, fraction=1.0)
    assert tokens_at([0, -1, 4], prompt) == [[[0], [5], [4]]]
    assert tokens_at(["kalata", "by", "lat", "bass"], prompt) == [[[2, 3, 4], [1], [3, 4], [5]]]
    assert tokens_at(["label:city", "label:number", "label:fraction"], prompt) == [[[5], [2], [1]]]
    other = read("bass one by", "b", city="one")
    assert tokens_at("label:city", prompt, other) == [[[5]], [[1]]]
    # a label is no text that somebody typed, and needs none to be stored
    assert tokens_at("label:city", prompt, keeps_text=False) == [[[5]]]


def test_a_text_that_stands_twice_is_taken_first_and_said() -> None:
    prompts = [read("one by one", "a"), read("by one", "b")]
    with pytest.warns(UserWarning, match=r"erasure: 1 of 2 prompts hold 'one' more than once, .* prompt 'a'"):
        assert tokens_at("one", *prompts) == [[[0]], [[1]]]
    answered = replace(read("one by one", "a", who="one"), answer_tokens=1)
    with pytest.warns(UserWarning, match=r"Give numbers of tokens, or a label that holds them"):
        tokens_at("label:who", read("one one", "a", who="one"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tokens_at("one", prompts[1])
        # what an answer repeats is no second place of the question
        assert tokens_at(["one", "label:who"], answered) == [[[0], [0]]]


@pytest.mark.parametrize(
    ("at", "known", "message"),
    [
        ("Paris", {}, r"prompt 'a' does not hold 'Paris'; it begins 'one.*by.*Leave it out, or name places by a label"),
        (9, {}, r"prompt 'a' has no place at token 9: it has 3 tokens, allowed: 0 to 2, or -3 to -1"),
        (-4, {}, "has no place at token -4"),
        ("label:town", {}, r"has no label 'town', which is to tell a place; its labels: 'city'\."),
        ("label:citi", {}, r"Did you mean 'city'\?"),
        ("by", {"has_tokenizer": False}, "was given as token ids, whose texts are unknown; give numbers of tokens"),
        (
            "by",
            {"keeps_text": False},
            "positions name a text, and none is to be stored; give numbers of tokens or a la",
        ),
    ],
)
def test_a_place_that_is_not_there_is_refused(at: Any, known: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        tokens_at(at, read("one by bass", "a", city="by"), **known)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": "x"}, r"has to name places by 'at' alone\. .*give \{\"at\": \"Paris\"\}"),
        ({"at": []}, "is no place"),
        ({"at": [True]}, "True is no place"),
        ({"at": ["x", " "]}, "' ' is no place"),
        ({"at": 1.5}, "1.5 is no place"),
        ({"at": ["city", "label:city"]}, "two places are called 'city', which results could not tell apart"),
    ],
)
def test_names_of_another_form_are_refused(value: Any, message: str) -> None:
    for read_option in (as_places, as_positions):
        with pytest.raises(OptionError, match=f"skip: positions.*{message}"):
            read_option(value, "skip")
    with pytest.raises(OptionError, match=r"erasure: positions=\[\[3\]\] names no places"):
        as_places([[3]], "erasure")
    assert as_positions([[3], [4, 5]], "skip") == ((3,), (4, 5))
    assert as_places({"at": "a"}, "erasure") == NamedPlaces(("a",))


@pytest.mark.each
@pytest.mark.parametrize("name", NAMES)
def test_skip_effects_of_each_place_are_one_forward_each(name: str) -> None:
    model = zoo.build(name)
    blocks = naive.blocks_of(model)
    ids = zoo.prompts(model, (9, 12))
    result = waves.run(waves.loaded(name), ids, {"skip": {"positions": AT}, "direct": {"positions": AT}})
    skip, direct = result["skip"], result["direct"]
    assert skip.place.values.tolist() == direct.place.values.tolist() == ["3", "-4", "5"]
    np.testing.assert_array_equal(skip.place_start, [[3, 5, 5], [3, 8, 5]])
    np.testing.assert_array_equal(skip.place_stop, [[4, 6, 6], [4, 9, 6]])
    for prompt, own in enumerate(ids):
        base_resid, base_logits = naive.boundaries(model, blocks, own), naive.logits(model, own)
        for place, t in enumerate(skip.place_start.values[prompt].tolist()):
            for s in range(len(blocks)):
                resid, logits = naive.skip_future(model, blocks, own, s, t)
                effect = naive.effects(base_resid, resid)[:, t:].numpy()
                change = naive.output_change(base_logits, logits)[t:].numpy()
                values = skip.effect_at[prompt, place, 0, :, s].values
                np.testing.assert_allclose(values[0, s + 1 :], effect.mean(1)[s + 1 :], rtol=0, atol=2e-5)
                np.testing.assert_allclose(values[2, s + 1 :], effect.max(1)[s + 1 :], rtol=0, atol=2e-5)
                assert (values[:, : s + 1] == 0).all()
                output = skip.output_at[prompt, place, 0, :, s].values
                np.testing.assert_allclose(output[[0, 2]], [change.mean(), change.max()], rtol=0, atol=2e-5)
    # the places are apart, and two names of one place agree
    assert np.abs(skip.effect_at.values[0, 0] - skip.effect_at.values[0, 1]).max() > 1e-3
    np.testing.assert_array_equal(skip.effect_at.values[0, 1], skip.effect_at.values[0, 2])
    alone = waves.run(waves.loaded(name), ids[:1], {"direct": {"positions": [[5]]}})["direct"].effect_future
    np.testing.assert_allclose(direct.effect_at.values[0, 1], alone.values[0], rtol=0, atol=2e-5)
    assert np.abs(direct.effect_at.values[0, 0] - direct.effect_at.values[0, 1]).max() > 1e-3


def erased_together(name: str, ids: list[int], answer: int, span: range, values: torch.Tensor) -> np.ndarray:
    """(effect, effect_future) at every boundary, [2, L+1], all tokens of a span erased in one forward."""
    model = zoo.build(name)
    blocks, base, tokens = naive.blocks_of(model), naive.logits(model, ids), len(ids)
    given = values[:, None].expand(-1, tokens, -1)
    effects = []
    for boundary in range(len(blocks) + 1):
        logits = naive_patching.patched_logits(model, blocks, ids, given, boundary, span)
        change = naive.output_change(base, logits)
        effects.append([float(change[tokens - 1 - answer : tokens - 1].max()), float(change[span.stop :].max())])
    return np.array(effects).T


@pytest.mark.each
@pytest.mark.parametrize("name", NAMES)
def test_a_place_is_erased_as_a_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spans of several tokens, which overlap, among them one of the predicting tokens."""
    model = zoo.build(name)
    ids, spans, answer = zoo.prompts(model, (9,))[0], [range(2, 5), range(3, 4), range(5, 7)], 3
    monkeypatch.setattr("bathyscope.measures.of.erasure.find_places", lambda *_: [tuple(map(place_of, spans))])
    options = {"positions": {"at": ["a", "b", "c"]}, "future": True}
    result = waves.run(waves.loaded(name), [ids], {"erasure": options}, answers=[answer])["erasure"]
    values = naive_erasure.mean_residual(model, naive.blocks_of(model), [ids])
    for place, span in enumerate(spans):
        effect, future = erased_together(name, ids, answer, span, values)
        np.testing.assert_allclose(result.effect_at[0, :, place], effect, rtol=0, atol=CLOSE)
        np.testing.assert_allclose(result.effect_future_at[0, :, place], future, rtol=0, atol=CLOSE)
        assert effect.max() > 1e-2
    # the map has the only place of one token, and nothing else was computed
    np.testing.assert_array_equal(result.effect[0, :, 3], result.effect_at[0, :, 1])
    assert int(result.effect.notnull().any("boundary").sum()) == 1


def place_of(tokens: range) -> Any:
    from bathyscope.measures.places import TokenPlace

    return TokenPlace(tokens)


def test_what_comes_after_no_token_is_erased_for_nobody() -> None:
    ids = zoo.prompts(zoo.build("llama"), (9,))
    options = {"positions": {"at": [-1, 2]}, "future": True}
    result = waves.run(waves.loaded("llama"), ids, {"erasure": options}, answers=[2])["erasure"]
    assert (result.effect_at[0, :, 0] == 0).all()
    assert result.effect_future_at[0, :, 0].isnull().all()
    whole = waves.run(waves.loaded("llama"), ids, {"erasure": {"future": True}}, answers=[2])["erasure"]
    for name in ("effect", "effect_future"):
        np.testing.assert_allclose(result[f"{name}_at"][0, :, 1], whole[name][0, :, 2], rtol=0, atol=CLOSE)


@pytest.mark.each
@pytest.mark.parametrize("name", NAMES)
def test_a_place_is_patched_as_a_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = zoo.build(name)
    blocks, (target, source) = naive.blocks_of(model), zoo.prompts(model, (8, 8))
    source = [*target[:2], *source[2:]]
    # among the same tokens, over their end, inside, and over the token that is read
    spans = [range(0, 2), range(1, 4), range(4, 5), range(4, 7)]
    read_at = 5
    monkeypatch.setattr("bathyscope.measures.patching.find_places", lambda *_: [tuple(map(place_of, spans))])
    prompts = [Prompt(ids=ids, answer_tokens=2, id=own) for ids, own in ((target, "to"), (source, "from"))]
    options: dict[str, Any] = {"pairs": [["to", "from"]], "positions": {"at": ["a", "b", "c", "d"]}}
    result = bathyscope.survey(waves.loaded(name), prompts, "patching", patching=options, progress=False)["patching"]
    given = naive_patching.held(model, blocks, source, "block")
    base = naive.logits(model, target)[read_at].double().log_softmax(-1)
    assert result.place.values.tolist() == ["a", "b", "c", "d"]
    for place, span in enumerate(spans):
        for boundary in range(len(blocks) + 1):
            logits = naive_patching.patched_logits(model, blocks, target, given, boundary, span)
            patched = logits[read_at].double().log_softmax(-1)
            kl = float((base.exp() * (base - patched)).sum())
            assert float(result.kl_at[0, 0, boundary, place]) == pytest.approx(kl, abs=1e-5)
            answers = (patched - base)[[target[read_at + 1], source[read_at + 1]]].numpy()
            np.testing.assert_allclose(result.change_at[0, 0, boundary, place], answers, rtol=0, atol=2e-5)
    assert (result.kl_at[0, :, :, 0] == 0).all()
    assert float(result.kl_at[0, 0, 0, 1]) > 1e-4
    np.testing.assert_array_equal(result.kl[0, 0, :, 4], result.kl_at[0, 0, :, 2])
    assert int(result.kl[0, 0].notnull().any("boundary").sum()) == 1


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    zoo.build("llama").save_pretrained(folder)
    TOKENIZER.save_pretrained(folder)
    return folder


def assert_shown_by_name(run: Any, page: Path) -> None:
    options = FigureOptions()
    skip = [panel.name for panel in FIGURES["skip"].drawing(run, options).panels]
    assert {"place_0", "prompts_place_0", "output_place_0"} <= set(skip)
    erasure = {panel.name: panel for panel in FIGURES["erasure"].drawing(run, options).panels}
    # a row for each token, with the names of its places; and a curve for each place
    rows = erasure["prompt_0"].shared[0].content.rows.pieces
    assert [text.rpartition("‹")[2] for text in rows if "‹" in text] == ["city›"] * 3 + ["-2›"]
    assert "‹bass› ‹-2›" in " ".join(rows)
    curves, _ = curves_of(erasure["effect_at"])
    assert [curve.label for curve in curves] == ["bass", "city", "-2"]
    bathyscope.report([run], page)
    text = page.read_text(encoding="utf-8")
    assert "before ‹city›" in text


def test_places_of_a_command_are_in_the_run_and_resume(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {"text": "one by kalata one by bass bell", "answer": "bell", "city": "kalata"},
        {"text": "bass by one by kaleta binn borr", "answer": "borr", "city": "kaleta"},
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    out = tmp_path / "run"
    typed = ["survey", str(model_folder), "--prompts", str(tmp_path / "a.jsonl"), "--out", str(out), "--quiet"]
    typed += ["--measures", "skip,erasure", "--skip.positions.at", "label:city", "--erasure.positions.at"]
    typed += ['["bass", "label:city", -2]']
    assert main(typed) == 0, capsys.readouterr().err
    run = bathyscope.open(out)
    assert run["skip"].place.values.tolist() == ["city"]
    assert run["skip"].place_start.values.tolist() == [[2], [4]]
    assert run["erasure"].place.values.tolist() == ["bass", "city", "-2"]
    assert run["erasure"].place_stop.values.tolist() == [[8, 5, 8], [1, 7, 8]]
    assert run["erasure"].effect_at.notnull().all()
    assert_shown_by_name(run, tmp_path / "page.html")
    # the same command computes nothing again, and another place is another run
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*.nc")}
    assert main(typed) == 0
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*.nc")} == before
    capsys.readouterr()
    assert main([*typed[:-1], "bass"]) != 0
    assert "erasure" in capsys.readouterr().err
    assert main(["show", str(out), "--measure", "erasure", "--format", "csv"]) == 0
    assert "city" in capsys.readouterr().out


def test_a_place_of_skip_is_not_read_at_some_tokens_alone() -> None:
    with pytest.raises(OptionError, match="read_tokens does not go with places by name"):
        waves.measures({"skip": {"positions": {"at": 3}, "read_tokens": 4}})
    # before the first token nothing can be skipped
    with pytest.raises(OptionError, match="has no place at token 0: it has 9 tokens, allowed: 1 to 8, or -8 to -1"):
        waves.run(waves.loaded("llama"), zoo.prompts(zoo.build("llama"), (9,)), {"skip": {"positions": {"at": 0}}})


def test_runs_of_before_there_were_places_are_resumed(tmp_path: Path) -> None:
    """What earlier versions wrote of options stays as it was: positions of skip, and none of erasure."""
    prompts = [Prompt(ids=ids, answer_tokens=2) for ids in zoo.prompts(zoo.build("llama"), (9, 8))]
    bathyscope.survey(waves.loaded("llama"), prompts, ["skip", "erasure"], out=tmp_path / "run", progress=False)
    options = json.loads((tmp_path / "run" / "manifest.json").read_text(encoding="utf-8"))["identity"]["measures"]
    assert options["skip"]["positions"] is None
    assert "positions" not in options["erasure"]
