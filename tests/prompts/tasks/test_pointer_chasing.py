from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy import stats

from bathyscope.errors import OptionError
from bathyscope.prompts.tasks import SPLITS, Problem, task
from bathyscope.prompts.tasks.pointer_chasing import node_names

NODES = 16


def arrows(question: str) -> tuple[dict[str, str], list[str]]:
    """The graph that a question writes out, and the words after it."""
    words = question.split()
    first = words.index("start")
    assert all(words[at + 1] == ">" and words[at + 3] == ";" for at in range(0, first, 4))
    graph = {words[at]: words[at + 2] for at in range(0, first, 4)}
    assert len(graph) * 4 == first
    return graph, words[first:]


def walk(question: str) -> list[str]:
    """Every node on the way, the start first, from the question's text alone."""
    graph, asked = arrows(question)
    path = [asked[1]]
    for _ in range(asked.count("hop")):
        path.append(graph[path[-1]])
    return path


@pytest.fixture(scope="module")
def problems() -> list[Problem]:
    """As many of each k from 1 to 8."""
    chasing = task("pointer_chasing", nodes=NODES, hops=(1, 8))
    return [chasing.problem(index, 3, "train") for index in range(4000)]


@pytest.mark.parametrize("split", SPLITS)
def test_answers_and_steps_follow_the_arrows_of_the_text(split: str) -> None:
    chasing = task("pointer_chasing", nodes=12, hops=(1, 5))
    for index in range(200):
        problem = chasing.problem(index, 0, split)  # type: ignore[arg-type]
        path = walk(problem.question)
        assert path[-1] == problem.answer
        assert (problem.steps or "").split() == path[1:-1]
        assert problem.labels["k"] == problem.labels["hops"] == len(path) - 1
        assert problem.labels["shortest"] == min(len(path) - 1, 12 - (len(path) - 1))
        assert problem.labels["split"] == split


def test_k_takes_turns_and_extrapolation_has_more_hops() -> None:
    chasing = task("pointer_chasing", nodes=NODES, hops=(2, 4), beyond=(6, 7))
    assert [chasing.problem(i, 0, "train").labels["k"] for i in range(5)] == [2, 3, 4, 2, 3]
    assert [chasing.problem(i, 0, "extrapolate").labels["k"] for i in range(3)] == [6, 7, 6]
    usual = task("pointer_chasing", nodes=NODES, hops=3)
    assert [usual.problem(i, 0, "extrapolate").labels["k"] for i in range(4)] == [4, 5, 6, 4]


def test_the_graph_is_one_cycle_so_that_no_way_is_shorter(problems: list[Problem]) -> None:
    for problem in problems[:400]:
        graph, asked = arrows(problem.question)
        assert sorted(graph) == sorted(graph.values()) == sorted(node_names(NODES))
        node, seen = asked[1], set()
        while node not in seen:
            seen.add(node)
            node = graph[node]
        assert len(seen) == NODES
        path = walk(problem.question)
        assert len(set(path)) == len(path)


def test_questions_of_all_k_have_the_same_words_but_for_the_marks(problems: list[Problem]) -> None:
    assert len({len(problem.question.split()) for problem in problems}) == 1
    for problem in problems[:100]:
        graph, asked = arrows(problem.question)
        assert sorted(graph) == sorted(node_names(NODES))
        hops = int(problem.labels["k"])
        assert asked == ["start", asked[1], *["hop"] * hops, *["stay"] * (15 - hops), ":"]


@pytest.mark.parametrize("k", range(1, 9))
def test_answers_are_uniform_and_independent_of_the_start(problems: list[Problem], k: int) -> None:
    names = node_names(NODES)
    mine = [problem for problem in problems if problem.labels["k"] == k]
    answers = Counter(problem.answer for problem in mine)
    assert stats.chisquare([answers[name] for name in names]).pvalue > 1e-4
    gaps = Counter(
        (names.index(problem.answer) - names.index(arrows(problem.question)[1][1])) % NODES for problem in mine
    )
    assert gaps[0] == 0
    assert stats.chisquare([gaps[gap] for gap in range(1, NODES)]).pvalue > 1e-4


def test_no_place_in_the_text_gives_the_answer_away(problems: list[Problem]) -> None:
    words = np.array([problem.question.split()[: 4 * NODES] for problem in problems])
    answers = np.array([problem.answer for problem in problems])
    hits = (words[:, ::2] == answers[:, None]).sum(0)[: 2 * NODES]
    # at every place of a node, the answer stands as often as chance has it
    p_values = [stats.binomtest(int(hit), len(problems), 1 / NODES).pvalue for hit in hits]
    assert len(p_values) == 2 * NODES
    assert min(p_values) > 1e-3 / len(p_values)


def test_fewer_hops_never_give_the_answer(problems: list[Problem]) -> None:
    for problem in problems:
        assert problem.answer not in walk(problem.question)[:-1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": 2}, r"pointer_chasing: nodes=2 is out of range; allowed: 3 to 702"),
        ({"nodes": 10, "hops": (1, 6)}, r"hops reaches from 1 to 6; allowed: 1 to 5 \(half of the nodes"),
        ({"hops": (0, 3)}, "hops reaches from 0 to 3; allowed: 1 to 8"),
        ({"hops": (3, 2)}, r"hops takes a number or a rising pair such as \(1, 8\); \(3, 2\) given"),
        ({"hops": (1, 2, 3)}, r"hops takes a number or a rising pair such as \(1, 8\); \(1, 2, 3\) given"),
        ({"hops": (1, 4), "beyond": (4, 6)}, r"beyond reaches from 4 to 6; allowed: 5 to 15 \(more than in training"),
        ({"hops": (1, 4), "beyond": (5, 16)}, r"beyond reaches from 5 to 16; allowed: 5 to 15"),
        ({"hops": (1.5, 3)}, "pointer_chasing: hops takes a whole number; 1.5 given"),
        ({"node": 4}, r"pointer_chasing has no option 'node'. Did you mean 'nodes'\?"),
    ],
)
def test_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        task("pointer_chasing", **options)


def test_names() -> None:
    names = node_names(702)
    assert len(set(names)) == 702
    assert (names[25], names[26], names[27], names[701]) == ("z", "aa", "ab", "zz")
