from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise, permutations
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy import stats

from bathyscope.errors import OptionError
from bathyscope.prompts.tasks import SPLITS, Problem, Split, task

IDENTITIES = ("12345", "()")


def matrix(word: str) -> np.ndarray:
    """A word as a permutation matrix: row i has its one where i is sent. Both notations."""
    sent = list(range(5))
    if word.startswith("("):
        points = [int(point) - 1 for point in word.strip("()")]
        for point, following in zip(points, points[1:] + points[:1]):
            sent[point] = following
    else:
        sent = [int(point) - 1 for point in word]
    return np.eye(5, dtype=int)[sent]


def factors(problem: Problem) -> list[str]:
    words = problem.question.split()
    assert words[0] == "compose"
    assert words[-1] == ":"
    return words[1 : words.index("of") if "of" in words else -1]


def products(problem: Problem) -> list[np.ndarray]:
    """The products of the first, the first two … factors of the text; the first factor is applied first."""
    found = [np.eye(5, dtype=int)]
    for word in factors(problem):
        found.append(found[-1] @ matrix(word))
    return found[1:]


def as_word(product: np.ndarray) -> str:
    return "".join(str(point + 1) for point in product.argmax(1))


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("elements", ["all", "generators"])
def test_answers_and_steps_are_products_of_the_matrices_of_the_text(elements: str, split: str) -> None:
    made = task("permutations", factors=(1, 5), beyond=(6, 10), elements=elements, answer="product")
    for index in range(100):
        problem = made.problem(index, 0, split)  # type: ignore[arg-type]
        *partial, whole = map(as_word, products(problem))
        assert problem.answer == whole
        assert (problem.steps or "").split() == partial
        assert problem.labels["k"] == sum(word not in IDENTITIES for word in factors(problem))


def test_the_image_of_one_point() -> None:
    made = task("permutations", factors=(1, 5), beyond=(6, 10), elements="all", answer="image")
    for index in range(200):
        problem = made.problem(index, 0, "train")
        point = int(problem.question.split()[-2]) - 1
        *partial, whole = (str(product[point].argmax() + 1) for product in products(problem))
        path = [str(point + 1), *partial, whole]
        assert problem.labels["moves"] == len([1 for here, there in pairwise(path) if here != there])
        assert problem.answer == whole
        assert (problem.steps or "").split() == partial


@pytest.mark.parametrize("answer", ["product", "image"])
def test_what_is_held_out_is_not_trained_on_with_identities_elsewhere(answer: str) -> None:
    made = task("permutations", factors=(1, 3), beyond=(4, 6), elements="generators", answer=answer)

    def asked(count: int, seed: int, split: Split) -> dict[int, set[tuple[str, ...]]]:
        """What a level asks: its factors that are not the identity, and the point."""
        found: dict[int, set[tuple[str, ...]]] = {1: set(), 2: set(), 3: set()}
        for index in range(count):
            problem = made.problem(index, seed, split)
            moving = [word for word in factors(problem) if word not in IDENTITIES]
            point = problem.question.split()[-2] if answer == "image" else ""
            found[len(moving)].add((*moving, point))
        return found

    trained, held_out = asked(3000, 0, "train"), asked(600, 1, "interpolate")
    again = asked(600, 1, "train")
    for level in (2, 3):
        assert not trained[level] & held_out[level]
        assert trained[level] & again[level], "the same is drawn again, so that the sets could overlap"
    assert held_out[1] <= trained[1], "single steps are learned, and held out at other places"


def test_all_k_have_one_length_and_k_is_not_told_by_place() -> None:
    made = task("permutations", factors=(1, 8), beyond=(9, 16), elements="all", answer="product")
    problems = [made.problem(index, 1, "train") for index in range(4000)]
    assert {len(problem.question.split()) for problem in problems} == {16 + 2}
    assert {len(problem.question) for problem in problems} == {len(problems[0].question)}
    assert {len((problem.steps or "").split()) for problem in problems} == {15}
    places = Counter(
        place for problem in problems for place, word in enumerate(factors(problem)) if word not in IDENTITIES
    )
    assert stats.chisquare([places[place] for place in range(16)]).pvalue > 1e-4


@pytest.mark.parametrize("k", [2, 3, 8])
def test_products_are_uniform(k: int) -> None:
    made = task("permutations", factors=k, elements="all", answer="product")
    counts = Counter(made.problem(index, 2, "train").answer for index in range(6000))
    words = ["".join(order) for order in permutations("12345")]
    assert stats.chisquare([counts[word] for word in words]).pvalue > 1e-4


def test_first_and_last_factor_say_nothing_about_the_product() -> None:
    made = task("permutations", factors=(4, 4), elements="all", answer="product")
    hits = Counter[str]()
    count = 6000
    for index in range(count):
        problem = made.problem(index, 5, "train")
        moving = [word for word in factors(problem) if word not in IDENTITIES]
        hits["first"] += moving[0] == problem.answer
        hits["last"] += moving[-1] == problem.answer
        hits["sent"] += moving[0][0] == problem.answer[0]
    assert stats.binomtest(hits["first"], count, 1 / 120).pvalue > 1e-4
    assert stats.binomtest(hits["last"], count, 1 / 120).pvalue > 1e-4
    assert stats.binomtest(hits["sent"], count, 1 / 5).pvalue > 1e-4


def test_the_number_of_transpositions_gives_the_sign_as_the_task_says() -> None:
    made = task("permutations", elements="generators", answer="product")
    assert "gives the sign" in made.controls
    for index in range(200):
        problem = made.problem(index, 0, "train")
        swaps = sum(len(word) == 4 for word in factors(problem))
        assert round(np.linalg.det(matrix(problem.answer))) == (-1) ** swaps


def test_extrapolation_has_more_factors_in_the_same_length() -> None:
    made = task("permutations", factors=(1, 3), beyond=(5, 6), elements="all", answer="product")
    problems = [made.problem(index, 0, "extrapolate") for index in range(4)]
    assert [problem.labels["k"] for problem in problems] == [5, 6, 5, 6]
    assert {len(factors(problem)) for problem in problems} == {6} == {len(factors(made.problem(0, 0, "train")))}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, 12 + 5 + 3),
        ({"elements": "all", "answer": "product"}, 120 + 2),
        ({"answer": "product"}, 12 + 120 + 2),
        ({"elements": "all"}, 120 + 5 + 3),
    ],
)
def test_words(options: dict[str, str], words: int) -> None:
    assert len(task("permutations", **options).words or ()) == words


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"elements": "any"}, "permutations: elements='any' is unknown.* Allowed: all, generators"),
        ({"answer": "imag"}, r"answer='imag' is unknown. Did you mean 'image'\? Allowed: product, image"),
        ({"factors": (0, 2)}, "factors reaches from 0 to 2; allowed: 1 to 512"),
        ({"factors": (1, 4), "beyond": (3, 6)}, r"beyond reaches from 3 to 6; allowed: 5 to 1024 \(more than in"),
    ],
)
def test_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        task("permutations", **options)


@pytest.mark.parametrize("blocks", [2, 8, 12])
def test_the_defaults_are_those_of_the_checkpoints_of_this_name(blocks: int) -> None:
    """Otherwise most words are unknown to them: every question has their length, and only words that they know."""
    folder = Path(__file__).parents[3] / "checkpoints" / f"permutations_{blocks}"
    recipe = yaml.safe_load((folder / "recipe.yaml").read_text(encoding="utf-8"))
    options = {
        key: tuple(value) if isinstance(value, list) else value for key, value in recipe["task"]["options"].items()
    }
    vocabulary = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    by_default, trained = task("permutations"), task("permutations", **options)
    for number in range(20):
        problem = by_default.problem(number, 0, "interpolate")
        assert problem == trained.problem(number, 0, "interpolate")
        assert set(problem.example().text.split()) <= set(vocabulary)
