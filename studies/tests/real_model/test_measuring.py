"""Sources, reduced surveys and probes on tiny stand-ins; what is stored is measured once."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from support import gguf_gemma3, naive, zoo
from support.piece_tokenizer import CONTEXT, piece_tokenizer, split_words
from support.piece_tokenizer import WHOLES as WHOLE_WORDS
from support.word_tokenizer import word_tokenizer
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import Gemma3ForCausalLM, PreTrainedTokenizerFast

import bathyscope
from bathyscope import Model, load
from bathyscope.extend.prompts import tokenized
from studies.real_model import computed, measuring
from studies.real_model.jobs import JOBS, Job, job
from studies.real_model.measuring import is_measured, measure
from studies.real_model.models import GEMMA3, REAL_MODELS, RealModel
from studies.real_model.quantities import read
from studies.real_model.sources import (
    CAPITALS,
    exchanged_capitals,
    problems_by_steps,
    text_windows,
    two_hop_pairs,
)

WORDS = [
    *("The", "the", "capital", "of", "is", "spouse", "father", "Ann", "Bea", "Cid", "Dan", "Eve", "Fay", "Gus"),
    *(word for fact in CAPITALS.items() for word in fact),
]


@pytest.fixture(scope="module")
def model() -> Model:
    return load(zoo.entry("llama").build(), tokenizer=word_tokenizer(WORDS))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for name in ("two_hop", "gsm8k", "text"):
        (folder / name).mkdir()
    people = WORDS[7:14]
    rows = [
        {
            "r1_template": "the father of {}",
            "e1_label": people[number],
            "e2_label": people[number + 1],
            "e3_label": people[number + 2] if number != 1 else "a name of many more letters than others",
            "source_prompt": f"the spouse of the father of {people[number]} is",
        }
        for number in range(5)
    ]
    with (folder / "two_hop/two_hop_1000.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    problems = [
        {"question": "the " * length, "answer": "\n".join(["Ann is the capital"] * steps) + "\n#### 1"}
        for length, steps in ((9, 2), (3, 2), (5, 3), (4, 4), (2, 5), (6, 4), (7, 3))
    ]
    lines = "".join(f"{json.dumps(row)}\n" for row in problems)
    (folder / "gsm8k/test_first600.jsonl").write_text(lines, encoding="utf-8")
    (folder / "text/wikitext2_valid.txt").write_text("\n".join(["the capital of Ann is"] * 40), encoding="utf-8")
    return folder


def test_windows_are_taken_from_a_part_of_the_text(data: Path) -> None:
    (data / "text/other").mkdir(exist_ok=True)
    text = "\n".join(f"line {number:03d} of it" for number in range(100))
    folder = data / "text/other"
    (folder / "text").mkdir(exist_ok=True)
    (folder / "text/wikitext2_valid.txt").write_text(text, encoding="utf-8")
    early, late = (
        [int(str(prompt.text)[5:8]) for prompt in text_windows(15, *part)(folder, 5)]
        for part in ((0.0, 0.5), (0.5, 1.0))
    )
    assert max(early) < 50 <= min(late)
    assert len(set(early)) == len(set(late)) == 5


def test_windows_are_whole_where_paragraphs_are_long(tmp_path: Path) -> None:
    """A window begins behind the end of a paragraph, which may lie further on than the window is long."""
    (tmp_path / "text").mkdir()
    text = "\n".join("long words of one paragraph " * 30 for _ in range(20))
    (tmp_path / "text/wikitext2_valid.txt").write_text(text, encoding="utf-8")
    prompts = text_windows(20)(tmp_path, 8)
    assert {prompt.text for prompt in prompts} == {"long words of one"}


def test_two_hop_questions_come_with_their_first_hops(data: Path) -> None:
    prompts = two_hop_pairs(data, 2)
    assert [(prompt.text, prompt.answer, prompt.labels["hops"]) for prompt in prompts[:2]] == [
        ("the spouse of the father of Ann is", " Cid", 2),
        ("the father of Ann is", " Bea", 1),
    ]
    assert len(prompts) == 4
    assert all(len(prompt.answer or "") < 25 for prompt in two_hop_pairs(data, 5))


def test_problems_take_turns_by_steps_the_shortest_first(data: Path) -> None:
    prompts = problems_by_steps(data, 5)
    assert [prompt.labels["steps"] for prompt in prompts] == [2, 3, 4, 2, 3]
    assert [str(prompt.text).count("the") for prompt in prompts] == [3, 5, 4, 9, 7]
    assert prompts[0].answer == " Ann is the capital\nAnn is the capital"


def test_capitals_are_exchanged_within_pairs(model: Model) -> None:
    prompts = exchanged_capitals(model.tokenizer, 3)
    assert [prompt.labels["pair"] for prompt in prompts] == [f"pair {number // 2}" for number in range(6)]
    assert (prompts[0].text, prompts[0].answer) == ("The capital of France is", " Paris")


def test_pairs_of_hops_are_the_scores_of_a_survey(model: Model, data: Path) -> None:
    stored = computed.two_hops(model, data, 3)
    run = bathyscope.survey(model, two_hop_pairs(data, 3), ["depth_score"], progress=False)
    scores = run["depth_score"]["prompt_score_layer"].sel(reduction="mean").values
    assert stored["depth_score.hops_2"].values == pytest.approx(scores[0::2])
    assert stored["depth_score.hops_1"].values == pytest.approx(scores[1::2])
    reading = read("hops_two_hop", {"two_hop": stored.assign_attrs(blocks=model.n_blocks)})
    assert reading.value == pytest.approx(scores[0::2].mean() - scores[1::2].mean())


def test_what_patching_moves_is_nothing_at_first_and_everything_at_the_end(model: Model, data: Path) -> None:
    """At boundary 0 the last token is the same in both questions; at boundary L it is all that is read."""
    stored = computed.capitals(model, data, 2).assign_attrs(blocks=model.n_blocks)
    moved, distance = stored["patching.moved"].values, stored["patching.distance"].values
    assert moved.shape == (2, model.n_blocks + 1)
    assert moved[:, 0] == pytest.approx(0, abs=1e-5)
    assert moved[:, -1] == pytest.approx(distance, rel=1e-4)
    boundary = round(read("answer_arrives", {"patching": stored}).value * model.n_blocks)
    restored = moved.sum(0) / distance.sum()
    assert restored[boundary] >= 0.5
    assert (restored[:boundary] < 0.5).all()


def test_gradients_are_summed_over_tokens_by_block(model: Model, data: Path) -> None:
    words = [*WORDS, "Give", "answer", "directly:", "=", "+", *map(str, range(20))]
    digits = load(zoo.entry("llama").build(), tokenizer=word_tokenizer(words))
    stored = computed.gradients(digits, data, 2).assign_attrs(blocks=digits.n_blocks)
    absolute = stored["integrated_gradients.absolute"].values
    assert absolute.shape == (2, digits.n_blocks)
    assert (absolute[:, :-1] > 0).all()
    assert 0 < read("gradients_first_half", {"gradients": stored}).value < 1


def test_words_and_senses_are_stored_one_by_one(tmp_path: Path) -> None:
    pieces = load(zoo.entry("llama").build(), tokenizer=piece_tokenizer())
    (tmp_path / "text").mkdir()
    text = " ".join([*CONTEXT.split(), *split_words(4), *WHOLE_WORDS])
    (tmp_path / "text/wikitext2_valid.txt").write_text(text, encoding="utf-8")
    words = computed.subjoiner_words(pieces, tmp_path, 8).assign_attrs(blocks=pieces.n_blocks)
    assert words["subjoiner.attention"].shape == (16, pieces.n_blocks, pieces.hf.config.num_attention_heads)
    assert int(words["subjoiner.split"].sum()) == 8
    assert 0 < read("subjoiners_early", {"subjoiners": words}).value <= 1
    (tmp_path / "wic").mkdir()
    rows = "".join(f"{json.dumps(sense(number))}\n" for number in range(12))
    for name in ("train", "validation_500"):
        (tmp_path / f"wic/{name}.jsonl").write_text(rows, encoding="utf-8")
    senses = computed.word_senses(pieces, tmp_path, 10)
    assert senses["wic.correct"].shape == (10, pieces.n_blocks + 1)
    assert set(np.unique(senses["wic.correct"])) <= {0.0, 1.0}


def sense(number: int) -> dict[str, Any]:
    first, last = WHOLE_WORDS[number % 5], WHOLE_WORDS[5 + number % 3]
    spans = {"start1": 0, "end1": len(first), "start2": 0, "end2": len(first)}
    return {"word": first, "sentence1": f"{first} {last}", "sentence2": first, "label": number % 2, **spans}


def test_the_best_heads_and_boundaries_are_those_that_were_planted() -> None:
    """Heads 0 … 9 of block 2 of 20 gather words; boundary 7 classifies every row; half the way is gone at 13."""
    attention = np.zeros((6, 20, 10))
    attention[:3, 2] = 0.9
    words = xr.Dataset(
        {
            "subjoiner.attention": (("prompt", "block", "head"), attention),
            "subjoiner.split": (("prompt",), [1, 1, 1, 0, 0, 0]),
            "n_tokens": (("prompt",), np.ones(6)),
        },
        attrs={"blocks": 20},
    )
    assert read("subjoiners_early", {"subjoiners": words}) == pytest.approx((0.15, 0.15, 0.15))
    correct = np.tile(np.arange(21) == 7, (30, 1)).astype(float)
    senses = xr.Dataset(
        {"wic.correct": (("prompt", "boundary"), correct), "n_tokens": (("prompt",), np.ones(30))},
        attrs={"blocks": 20},
    )
    assert read("wic_middle", {"wic": senses}) == pytest.approx((0.35, 0.325, 0.375))
    moved = np.where(np.arange(21) < 13, 0.4, 0.6) * np.array([[2.0], [4.0], [6.0]])
    pairs = xr.Dataset(
        {
            "patching.moved": (("prompt", "boundary"), moved),
            "patching.distance": (("prompt",), [2.0, 4.0, 6.0]),
            "n_tokens": (("prompt",), np.ones(3)),
        },
        attrs={"blocks": 20},
    )
    assert read("answer_arrives", {"patching": pairs}) == pytest.approx((0.65, 0.625, 0.675))


def test_an_interval_of_a_fraction_stays_between_0_and_1() -> None:
    """Two rows say the first boundary is best, two the last, so that nothing is known."""
    correct = np.zeros((4, 21))
    correct[:2, 0], correct[2:, 20] = 1.0, 1.0
    senses = xr.Dataset(
        {"wic.correct": (("prompt", "boundary"), correct), "n_tokens": (("prompt",), np.ones(4))},
        attrs={"blocks": 20},
    )
    reading = read("wic_middle", {"wic": senses})
    assert 0 <= reading.low <= reading.value <= reading.high <= 1


def test_accuracy_without_blocks_is_over_that_of_the_whole_model() -> None:
    answers = xr.Dataset(
        {
            "benchmarks.full": (("prompt",), [1.0, 1.0, 0.0, 0.0]),
            "benchmarks.without": (("prompt", "schedule"), [[1, 0], [1, 1], [0, 0], [0, 0.0]]),
            "n_tokens": (("prompt",), np.ones(4)),
        },
        attrs={"blocks": 10},
    )
    assert read("accuracy_kept", {"benchmarks": answers}).value == pytest.approx(0.75)


def test_a_job_is_measured_again_only_on_more_prompts(
    model: Model, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = job("two_hop")
    assert chosen is not None
    chosen = replace(chosen, prompts=(2, 1), controls=("untrained_0",))
    loaded: list[str] = []
    monkeypatch.setattr(measuring, "control", lambda name, folder: (loaded.append(name), model)[1])
    lines: list[str] = []
    for _ in range(2):
        measure(tmp_path / "model", data, tmp_path / "results", [chosen], lines.append)
    assert lines == ["two_hop: smollm2", "two_hop: untrained_0"]
    assert loaded == ["smollm2", "untrained_0"]
    file = tmp_path / "results/two_hop__smollm2.nc"
    assert is_measured(file, 2)
    assert not is_measured(file, 3)
    assert not is_measured(tmp_path / "results/none.nc", 1)
    measure(tmp_path / "model", data, tmp_path / "results", [replace(chosen, prompts=(3, 1))], lines.append)
    assert lines[2:] == ["two_hop: smollm2"]
    with xr.open_dataset(file, engine="h5netcdf") as stored:
        assert (stored.attrs["requested"], stored.attrs["blocks"], stored.sizes["prompt"]) == (3, model.n_blocks, 3)
        assert stored.attrs["cpu_seconds"] > 0
    assert not list((tmp_path / "results").glob("*.partial"))


def test_each_model_is_loaded_once_and_measured_before_its_controls(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loading a quarter of a billion parameters takes as long as a cheap job; controls of Gemma 3 take all prompts."""
    counts: list[tuple[str, str, int]] = []

    def measure_job(job: Job, name: str, model: Model, data: Path, real: RealModel) -> xr.Dataset:
        counts.append((job.name, name, job.count(real, name)))
        return xr.Dataset(attrs={"requested": job.count(real, name)})

    loaded: list[str] = []
    monkeypatch.setattr(measuring, "control", lambda name, folder: (loaded.append(name), model)[1])
    monkeypatch.setattr(measuring, "measure_job", measure_job)
    jobs = [replace(JOBS[0], name=name, controls=("untrained_0",)) for name in ("wic", "other")]
    measure(tmp_path / "model", tmp_path, tmp_path / "results", jobs, real=GEMMA3)
    assert loaded == ["gemma3", "untrained_0"]
    assert counts == [
        ("wic", "gemma3", 200),
        ("other", "gemma3", 12),
        ("wic", "untrained_0", 200),
        ("other", "untrained_0", 12),
    ]


def test_shuffled_blocks_take_their_windows_and_rotary_bases_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks 3, 5, 4, 1 and 2 run behind block 0, of which block 5 alone attends to everything."""
    torch.manual_seed(0)
    hf = Gemma3ForCausalLM(gguf_gemma3.config(initializer_range=0.2)).eval()
    hf.save_pretrained(tmp_path)
    monkeypatch.setattr(measuring, "_tokenizer", lambda folder: None)
    shuffled = measuring.control("shuffled", tmp_path).hf
    ids = list(range(3, 3 + 3 * gguf_gemma3.WINDOW))
    expected, _ = naive.run_schedule(hf, naive.blocks_of(hf), ids, [0, 3, 5, 4, 1, 2, 6])
    assert naive.logits(shuffled, ids) == pytest.approx(expected, abs=1e-4)
    assert (naive.logits(hf, ids) - expected).abs().max() > 0.01


def test_the_digits_of_both_numbers_are_found_in_the_tokens(data: Path) -> None:
    """One token a letter: the digits before the sign of equality, and not those of the answer."""
    characters = [chr(code) for code in range(32, 127)]
    backend = Tokenizer(models.WordLevel({letter: number for number, letter in enumerate(characters)}, unk_token=" "))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    backend.decoder = decoders.Fuse()
    letters = load(zoo.entry("llama").build(), tokenizer=PreTrainedTokenizerFast(tokenizer_object=backend))
    stored = computed.erased_sums(letters, data, 2)
    prompts = tokenized(letters, "addition:2?digits=3")
    for row, prompt in zip(stored["erasure.is_operand"].values, prompts, strict=True):
        assert row.sum() == 6
        question = letters.tokenizer.decode(prompt.ids).partition("=")[0]
        assert np.flatnonzero(row).tolist() == [place for place, letter in enumerate(question) if letter.isdigit()]


def test_the_effect_of_operands_is_that_of_the_tokens_that_are_marked() -> None:
    """Tokens 1 and 2 are operands: 4 at first, 1 in the last third; token 3 is none, and tokens 6 to 8 are not."""
    effect = np.zeros((2, 12, 16))
    effect[:, :8, 1], effect[:, 8:, 2], effect[:, :, 3], effect[:, :, 6] = 4.0, 1.0, 9.0, 9.0
    is_operand = np.zeros((2, 16), np.int8)
    is_operand[:, 1:3] = 1
    maps = xr.Dataset(
        {
            "erasure.effect": (("prompt", "boundary", "token"), effect),
            "erasure.is_operand": (("prompt", "token"), is_operand),
            "n_tokens": (("prompt",), np.full(2, 16)),
        },
        attrs={"blocks": 11},
    )
    assert read("erasure_operands", {"erasure": maps}).value == pytest.approx(0.25)


def test_every_job_has_something_to_measure() -> None:
    assert len({chosen.name for chosen in JOBS}) == len(JOBS)
    assert all(
        chosen.count(real, name) > 0 for real in REAL_MODELS.values() for chosen in JOBS for name in chosen.names(real)
    )
