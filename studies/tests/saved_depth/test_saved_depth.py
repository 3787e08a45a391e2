"""Saved depth: pairing, intervals, decisions and sentences of generated records, and a page that is what is stored."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bathyscope_lab.batches import Encoded

from bathyscope.errors import PromptError
from bathyscope.extend.prompts import Problem, task
from studies.saved_depth import page as pages
from studies.saved_depth.command import FIGURE, PAGE
from studies.saved_depth.differences import (
    UNDECIDED,
    Interval,
    between_seeds,
    decide,
    decisions,
    difference,
    load_stored,
    over_models,
    paired,
    untrained_differences,
)
from studies.saved_depth.expected import (
    BOUND,
    CLAIMS,
    CONTROLS,
    LEAST_PROBLEMS,
    MIXED_TASK,
    PRIMARY,
    READINGS,
    SEEDS,
    TASKS,
)
from studies.saved_depth.figure import DARK, picture
from studies.saved_depth.measuring import RESULTS, problems_of, solves
from studies.saved_depth.mixing import Texts, encode_words, rate_at, read_texts, train_mixture
from studies.saved_depth.page import PARTS, marks_of, sentence, with_results
from studies.saved_depth.trainings import MIXING, WRITING, models, recipe_of

COUNT = 40
ENDINGS = [f"{vowel}{last}" for vowel in "aeiou" for last in ("rd", "ll", "st", "mp", "nt", "ck", "b", "f", "sh")]


def record(name: str, seed: int, depth: float, *, untrained: float = 3.0, solved: int = COUNT, tilt: int = 1) -> Any:
    """A model that solves the first problems, at depths that differ by problem in the same way for every model."""
    values = [depth + tilt * (place % 3 - 1) for place in range(COUNT)]
    null = [untrained + number / 10 for number in range(CONTROLS)]
    return {
        "condition": name,
        "seed": seed,
        "held_out": {"interpolate_accuracy": solved / COUNT, "text_loss": 4.0, "unigram_loss": 5.0},
        "questions": [f"question {place}" for place in range(COUNT)],
        "k": [1 + place % 2 for place in range(COUNT)],
        "solved": [place < solved for place in range(COUNT)],
        **dict.fromkeys(READINGS, values),
        "untrained": {reading: [[value] * COUNT for value in null] for reading in READINGS},
        "cpu_seconds": {"training": 20.0, "measuring": 4.0},
        "versions": {},
    }


def conditions(**depths: tuple[float, ...]) -> dict[str, list[Any]]:
    """All conditions at depth 4, but for those that are named with underscores for their hyphens."""
    named = {name.replace("__", "-"): values for name, values in depths.items()}
    names = [condition.name for condition in (*WRITING, *MIXING)]
    return {
        name: [record(name, seed, value) for seed, value in zip(SEEDS, named.get(name, (4.0, 4.1, 3.9)))]
        for name in names
    }


def test_differences_are_of_problems_that_both_solve() -> None:
    first, second = record("a", 0, 2.0, solved=30), record("b", 0, 5.0, tilt=0)
    second["solved"] = [place >= 10 for place in range(COUNT)]
    values = paired(first, second, PRIMARY)
    assert values.size == 20
    assert values.tolist() == [2.0 + place % 3 - 1 - 5.0 for place in range(10, 30)]
    assert paired(first, second, PRIMARY, level=1).size == 10
    first[PRIMARY] = [None if place == 12 else value for place, value in enumerate(first[PRIMARY])]
    assert paired(first, second, PRIMARY).size == 19


def test_problems_in_another_order_are_not_paired() -> None:
    second = record("b", 0, 5.0)
    second["questions"].reverse()
    with pytest.raises(AssertionError):
        paired(record("a", 0, 2.0), second, PRIMARY)


def test_the_interval_is_over_seeds_and_not_over_problems() -> None:
    mean, low, high = over_models([-1.0, -2.0, -3.0])
    reach = 4.302652729911275 / math.sqrt(3)
    assert (mean, low, high) == pytest.approx((-2.0, -2.0 - reach, -2.0 + reach))
    assert all(math.isnan(value) for value in over_models([-1.0, math.nan, -3.0]))


@pytest.mark.parametrize(
    ("low", "high", "decision"),
    [
        (-0.4, 0.4, "less than the bound apart"),
        (-0.4, -0.1, "less than the bound apart"),
        (-2.0, -0.6, "shallower by more than the bound"),
        (-2.0, -0.4, "shallower, by how much is open"),
        (0.6, 2.0, "deeper by more than the bound"),
        (0.1, 2.0, "deeper, by how much is open"),
        (-2.0, 0.1, UNDECIDED),
        (-0.1, BOUND, UNDECIDED),
        (math.nan, math.nan, UNDECIDED),
    ],
)
def test_decisions_follow_from_interval_and_bound(low: float, high: float, decision: str) -> None:
    assert decide(Interval((low + high) / 2, low, high)) == decision


def test_known_differences_are_decided() -> None:
    stored = conditions(permutations__written=(2.0, 2.1, 1.8))
    assert decisions(stored) == {
        "writing_permutations": "shallower by more than the bound",
        "writing_arithmetic": "less than the bound apart",
        "half_texts": "less than the bound apart",
        "most_texts": "less than the bound apart",
    }
    result = difference(stored, CLAIMS[0], PRIMARY)
    assert result is not None
    assert result.by_seed == pytest.approx([-2.0, -2.0, -2.1])
    assert result.shared == [COUNT] * 3
    # untrained models read both prompts alike here, so that all of it is put down to training
    assert result.untrained.mean == 0
    assert result.excess.high < 0


def test_too_few_shared_problems_decide_nothing() -> None:
    stored = conditions(permutations__written=(2.0, 2.1, 1.8))
    # each solves enough, and the two share too few
    first, second = stored["permutations-written"][1], stored["permutations-at-once"][1]
    first["solved"] = [place < 27 for place in range(COUNT)]
    second["solved"] = [place >= 8 for place in range(COUNT)]
    result = difference(stored, CLAIMS[0], PRIMARY)
    assert result is not None
    assert decide(result.trained) == UNDECIDED
    assert f"Both models of a seed solve 40, {LEAST_PROBLEMS - 1}, 40 problems" in sentence(CLAIMS[0], result)


def test_a_task_that_is_not_learned_decides_nothing() -> None:
    stored = conditions(permutations__written=(2.0, 2.1, 1.8))
    stored["permutations-written"][1]["solved"] = [place < 0.55 * COUNT for place in range(COUNT)]
    result = difference(stored, CLAIMS[0], PRIMARY)
    assert result is not None
    assert result.shared[1] >= LEAST_PROBLEMS
    assert decide(result.trained) == UNDECIDED
    assert "each model must solve 60 %" in sentence(CLAIMS[0], result)


def test_a_difference_of_untrained_models_is_not_put_down_to_training() -> None:
    stored = conditions(permutations__written=(2.0, 2.1, 1.8))
    for row in stored["permutations-written"]:
        row["untrained"][PRIMARY] = [[value] * COUNT for value in (0.9, 1.1, 1.3)]
    assert untrained_differences(stored["permutations-written"][0], stored["permutations-at-once"][0], PRIMARY) == (
        pytest.approx([-2.1, -2.0, -1.9])
    )
    result = difference(stored, CLAIMS[0], PRIMARY)
    assert result is not None
    assert "That training does it does not follow" in sentence(CLAIMS[0], result)


def test_sentences_say_what_follows() -> None:
    stored = conditions(**{"permutations__written": (2.0, 2.1, 1.8), "nested_arithmetic__written": (1.0, 6.0, 3.0)})
    texts = list(pages.conclusions(stored))
    assert len(texts) == len(CLAIMS)
    assert "shallower by more than the bound" in texts[0]
    assert "It is not only the longer prompt" in texts[0]
    assert "nothing follows. The interval holds 0" in texts[1]
    assert "equal to within 0.5 blocks" in texts[2]


def test_seeds_of_a_condition_lie_apart() -> None:
    rows = [record("a", seed, depth) for seed, depth in zip(SEEDS, (2.0, 2.5, 4.0))]
    assert between_seeds(rows, PRIMARY) == pytest.approx([0.5, 2.0, 1.5])


def test_a_condition_without_all_seeds_is_not_read(tmp_path: Path) -> None:
    for seed in (0, 1):
        (tmp_path / f"a-seed-{seed}.json").write_text(json.dumps(record("a", seed, 2.0)))
    for seed in SEEDS:
        (tmp_path / f"b-seed-{seed}.json").write_text(json.dumps(record("b", seed, 2.0)))
    assert list(load_stored(tmp_path)) == ["b"]
    assert difference(load_stored(tmp_path), CLAIMS[0], PRIMARY) is None
    assert [row["seed"] for row in load_stored(tmp_path)["b"]] == list(SEEDS)


def test_conditions_differ_in_nothing_else() -> None:
    assert len(list(models())) == len(SEEDS) * len((*WRITING, *MIXING))
    written, at_once = (recipe_of(condition, 0).to_dict() for condition in (WRITING[1], WRITING[0]))
    assert {key for key in written if written[key] != at_once[key]} == {"name", "loss", "steps"}


def test_a_mixture_learns_texts_and_the_task_alone_does_not(tmp_path: Path) -> None:
    words = task(MIXED_TASK, **TASKS[MIXED_TASK]).words
    assert words is not None
    stream = np.tile(np.arange(30, 40), 400)
    texts = Texts(stream, stream, 40)
    losses = {}
    for share in (0.0, 0.75):
        model = train_mixture(tmp_path / str(share), share, 0, texts, steps=12)
        losses[share] = json.loads((tmp_path / str(share) / "training.json").read_text())["text_loss"]
        again = train_mixture(tmp_path / str(share), share, 0, texts, steps=12)
        assert all(torch.equal(first, second) for first, second in zip(model.parameters(), again.parameters()))
    assert losses[0.75] < losses[0.0] - 0.3


def test_texts_have_ids_behind_the_words(tmp_path: Path) -> None:
    # several hundred different words, so that the vocabulary can be filled
    text = " ".join(f"{first}{second}ing" for first in "bcdfghjklmnp" for second in ENDINGS)
    (tmp_path / "texts.txt").write_text(f"{text} " * 40)
    texts = read_texts(tmp_path / "texts.txt", ("1", "2", ":"))
    assert texts.training.min() >= 5
    assert max(texts.training.max(), texts.held_out.max()) < texts.size
    assert len(texts.held_out) == pytest.approx(0.05 * (len(texts.training) + len(texts.held_out)), abs=1)
    with pytest.raises(PromptError, match="--texts"):
        read_texts(tmp_path / "none.txt", ("1",))


def test_problems_are_words_with_an_answer_that_is_scored() -> None:
    encoded = encode_words(Problem("1 + 2 :", "1"), ("1", "2", "+", ":"))
    assert encoded == Encoded((0, 2, 4, 3, 5, 2, 1), 2)


def test_the_rate_rises_and_falls() -> None:
    rates = [rate_at(step, 300) for step in range(300)]
    assert max(rates) == 1.0
    assert rates[0] == pytest.approx(1 / 30)
    assert rates[-1] == pytest.approx(0.1, abs=0.001)


def test_problems_are_held_out_and_different() -> None:
    problems = problems_of("permutations", 20)
    assert len({problem.question for problem in problems}) == 20
    assert {problem.labels["split"] for problem in problems} == {"interpolate"}


def test_the_likeliest_token_decides_what_is_solved() -> None:
    from bathyscope import Prompt

    class Echo:
        """Predicts the last token again."""

        def __call__(self, ids: torch.Tensor) -> Any:
            logits = torch.nn.functional.one_hot(ids, 10).float()
            return type("Output", (), {"logits": logits})

    model: Any = type("Model", (), {"hf": Echo()})
    prompts = [Prompt(ids=[1, 2, 2], answer_tokens=1), Prompt(ids=[1, 2, 3], answer_tokens=1)]
    assert solves(model, prompts) == [True, False]


def test_the_picture_has_colours_for_light_and_dark_pages() -> None:
    svg = picture(conditions()).decode()
    assert "prefers-color-scheme:dark" in svg
    assert all(colour in svg for colour in DARK.values())
    assert svg.count("<style>") == 1


def test_the_page_is_what_is_stored(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert with_results(text, RESULTS) == text
    if load_stored(RESULTS):
        assert picture(load_stored(RESULTS)) == FIGURE.read_bytes()


def test_the_page_of_other_results_is_another(tmp_path: Path) -> None:
    text = "\n".join(f"{start}\n{end}" for start, end in map(marks_of, PARTS))
    empty = with_results(text, tmp_path)
    assert pages.NOT_YET in empty
    for rows in conditions(permutations__written=(2.0, 2.1, 1.8)).values():
        for row in rows:
            (tmp_path / f"{row['condition']}-seed-{row['seed']}.json").write_text(json.dumps(row))
    full = with_results(text, tmp_path)
    assert pages.NOT_YET not in full
    assert "−2.03" in full
