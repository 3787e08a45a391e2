"""Intervals of costs that few prompts carry, on costs of real models that are stored prompt by prompt."""

from __future__ import annotations

import warnings
from collections.abc import Container
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from support.fresh import fresh_module

from bathyscope.statistics.bootstrap import mean_intervals
from bathyscope.statistics.rare import FEWEST_PROMPTS, bounded_intervals, carried_by_few, outward_mean_intervals
from bathyscope.statistics.sampling import Sampling

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "cost_coverage.py"
DRAWS = 150
SAMPLING = Sampling(resamples=200, level=0.9)


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    return fresh_module(BENCHMARK, "cost_coverage")


def test_intervals_only_move_outwards() -> None:
    values = np.random.default_rng(0).exponential(size=(30, 4))
    values[3, 1] = np.nan
    for plain, outward in zip(mean_intervals(values, SAMPLING), outward_mean_intervals(values, SAMPLING), strict=True):
        assert outward.low < plain.low < plain.high < outward.high


def test_an_end_is_that_of_one_prompt_more() -> None:
    """It is three times as far from the mean as the farthest: at 0.25 + 3 · 0.75 for three at 0 and one at 1."""
    values = np.array([[0.0], [0.0], [0.0], [1.0]])
    [more] = mean_intervals(np.append(values, [[2.5]], axis=0), SAMPLING)
    assert outward_mean_intervals(values, SAMPLING)[0].high == more.high


def test_the_prompt_more_is_a_draw_of_its_own() -> None:
    """Where prompts are drawn in clusters it is in none of them."""
    values = np.random.default_rng(0).exponential(size=(12, 1))
    cluster = np.repeat(np.arange(6), 2)
    further = values.mean() - 3 * np.abs(values - values.mean()).max()
    alone = Sampling(resamples=200, level=0.9, cluster=np.append(cluster, 6))
    [more] = mean_intervals(np.append(values, [[further]], axis=0), alone)
    [outward] = outward_mean_intervals(values, Sampling(resamples=200, level=0.9, cluster=cluster))
    assert outward.low == pytest.approx(more.low)


def test_a_far_prompt_shows_that_few_carry_a_cost() -> None:
    even = np.arange(10.0)
    assert carried_by_few(even[:, None]).tolist() == [False]
    # the median is 4.5 and half of the prompts are 2.5 from it: 30 more is the farthest of the rest
    for far, few in ((4.5 + 30 - 0.1, False), (4.5 + 30 + 0.1, True)):
        assert carried_by_few(np.where(even == 9, far, even)[:, None]).tolist() == [few]
        assert carried_by_few(np.where(even == 9, -far, -even)[:, None]).tolist() == [few]


@pytest.mark.parametrize(("prompts", "expected"), [(7, [True] * 3), (8, [False, True, False])])
def test_one_cost_that_few_carry_speaks_for_others_of_few_prompts(prompts: int, expected: list[bool]) -> None:
    values = np.random.default_rng(0).uniform(size=(prompts, 3))
    values[0, 1] = 90.0
    assert carried_by_few(values).tolist() == expected


def test_most_costs_that_few_carry_speak_for_all() -> None:
    values = np.random.default_rng(0).uniform(size=(12, 3))
    values[0, :2] = 90.0
    assert carried_by_few(values).all()


def test_costs_that_agree_but_for_rounding_tell_nothing_of_others_and_follow_them() -> None:
    """A block that does nothing costs nothing; one that no prompt needed may be needed by others."""
    alike = 1e-9 * np.random.default_rng(0).standard_cauchy(size=12)
    even = np.random.default_rng(1).uniform(size=12)
    few = np.array([5.0, *[0.0] * 11])
    assert carried_by_few(np.stack([alike, even], axis=1)).tolist() == [False, False]
    assert carried_by_few(np.stack([alike, even, even, few], axis=1)).tolist() == [True, False, False, True]


def test_a_cost_without_values_is_carried_by_none() -> None:
    values = np.stack([np.full(12, np.nan), np.random.default_rng(1).uniform(size=12)], axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert carried_by_few(values).tolist() == [False, False]


@pytest.mark.parametrize(("clusters", "bounded"), [(39, False), (40, True)])
def test_clusters_are_counted_and_not_prompts(clusters: int, bounded: bool) -> None:
    values = np.zeros((80, 1))
    values[:4] = 5.0
    sampling = Sampling(resamples=200, cluster=np.arange(80) % clusters)
    few = carried_by_few(values)
    assert few.all()
    [ends] = bounded_intervals(mean_intervals(values, sampling), few, values, sampling)
    assert np.isfinite(ends).all() == bounded


def test_intervals_that_are_given_hold_at_every_number_of_prompts(benchmark: ModuleType) -> None:
    """Of costs of real models, also of those that few prompts carry; an interval that is not given misses nothing."""
    for name, costs in benchmark.populations().items():
        for size in (4, 8, 20):
            given, held, worst = benchmark.given_coverage(costs, size, DRAWS)
            assert worst < 0.21, (name, size)
            assert held > 0.9 or given < 0.25, (name, size)
            assert held > 0.92 or size < 20 or given == 0, (name, size)
    costs = benchmark.populations()["answers, permutations_12"]
    assert benchmark.coverage(costs, 8, DRAWS, mean_intervals)[0] < 0.75


def page_rows(benchmark: ModuleType) -> tuple[str, dict[tuple[str, int], list[float]]]:
    """Return what the page says below its table of bounds, and the columns of that by population and prompts."""
    page = (BENCHMARK.parents[1] / "docs" / "design" / "intervals.md").read_text(encoding="utf-8")
    table, text = page.split(f"| {' | '.join(benchmark.BOUNDS)} |", 1)[1].split("\n\n", 1)
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    rows = {(name, int(size)): [float(number.replace("–", "nan")) for number in row] for name, size, *row in cells}
    return " ".join(text.split("## Reading a depth")[0].split()), rows


def test_the_page_says_what_its_table_says(benchmark: ModuleType) -> None:
    text, rows = page_rows(benchmark)
    assert {size for _, size in rows} == {4, 8, 12, 20, 40}
    assert {name for name, _ in rows} == set(benchmark.populations())

    def spread(column: int, sizes: Container[int], *names: str) -> str:
        values = [row[column] for (name, size), row in rows.items() if size in sizes and name.startswith(names or "")]
        low, high = f"{np.nanmin(values):.0f}", f"{np.nanmax(values):.0f}"
        return low if low == high else f"{low} to {high}"

    fewer, below = (4, 8, 12), (4, 8, 12, 20)
    twelve, eight = "answers, permutations_12", "answers, permutations_8"
    assert (
        f"At 20 prompts those that are given hold in {spread(2, (20,))} %, at 40 in {spread(2, (40,))} %, "
        f"with fewer than 20 in {spread(2, fewer)} %: the {rows[eight, 8][2]:.0f} % are of permutations_8 with 8 "
        f"prompts, where {rows[eight, 8][1]:.0f} % are given."
    ) in text
    assert (
        f"answers of permutations_12 have {spread(1, below, twelve)} % of their intervals and those of permutations_8 "
        f"{spread(1, below, eight)} %"
    ) in text
    assert f"with 4 prompts {spread(1, (4,), 'problems', 'windows')} % of the costs of problems and texts" in text
    texts = ("problems", "windows")
    worst = [
        max(rows[key][3] for key in rows if key[0].startswith(texts) and key[1] in sizes) for sizes in (below, (40,))
    ]
    assert f"given and wrong in up to {worst[0]:.0f} % of draws below 40 prompts" in text
    assert f"and in up to {worst[1]:.0f} % with 40." in text
    assert (
        f"in {spread(4, below, twelve)} % of draws of permutations_12 and in {spread(4, below, eight)} % of "
        f"permutations_8; what is given does so in {spread(6, below, twelve, eight)} %."
    ) in text


def test_the_farthest_of_answers_is_much_farther_than_that_of_problems(benchmark: ModuleType) -> None:
    def farthest(name: str) -> np.ndarray:
        costs = benchmark.populations()[name]
        draws = costs[np.random.default_rng(0).integers(len(costs), size=(300, 20))]
        distance = np.abs(draws - np.median(draws, axis=1, keepdims=True))
        with np.errstate(divide="ignore"):
            return np.asarray(distance.max(axis=1) / np.median(distance, axis=1))

    names = [name for name in benchmark.populations() if name.startswith(("problems", "windows"))]
    assert len(names) == 5
    for name in names:
        assert ((farthest(name) > 2) & (farthest(name) < 8)).mean() > 0.75, name
    assert (farthest("answers, permutations_12") > 1000).mean() > 0.5


@pytest.mark.parametrize("name", ["answers, permutations_8", "answers, permutations_12", "problems, depth_12"])
def test_the_page_has_the_numbers_of_the_benchmark(benchmark: ModuleType, name: str) -> None:
    written = page_rows(benchmark)[1][name, 8]
    # a draw in two hundred may fall on the other side of an end where a machine rounds otherwise
    np.testing.assert_allclose(written, benchmark.bounds_row(benchmark.populations()[name], 8, 200), atol=1.0)


@pytest.mark.parametrize("size", [4, 8, 20])
def test_the_block_that_costs_least_is_seldom_bounded_too_low(benchmark: ModuleType, size: int) -> None:
    """As prune chooses it on so many prompts, and bounds it on as many others."""
    for name, costs in benchmark.populations().items():
        plain, given, bounded = benchmark.chosen_too_low(costs, size, DRAWS)
        assert bounded <= 0.15, name
        if name == "answers, permutations_12":
            assert plain > 0.2
        if name.startswith(("problems", "windows")):
            assert given > 0.85, name


def test_without_a_value_there_is_no_interval() -> None:
    values = np.array([[np.nan, 1.0], [np.nan, 2.0]])
    nothing, something = outward_mean_intervals(values, SAMPLING)
    assert np.isnan(nothing).all()
    assert np.isfinite(something).all()


def test_blocks_that_some_answers_need_are_seldom_called_idle(benchmark: ModuleType) -> None:
    """The two last blocks of a trained model cost 0.01 to 0.04 nats, mostly on few answers; none is idle."""
    costs = benchmark.populations()["answers, permutations_12"]
    assert (costs.mean(axis=0)[-2:] > benchmark.IDLE).all()
    assert (costs.mean(axis=0)[-2:] < 0.04).all()
    wrong = {
        (name, size): benchmark.called_idle(costs, size, DRAWS, intervals)
        for name, intervals in (("plain", mean_intervals), ("outward", outward_mean_intervals))
        for size in (8, FEWEST_PROMPTS)
    }
    assert wrong["plain", 8] > 0.2, "few prompts call a block idle that is none, which is why they are not asked"
    assert wrong["outward", FEWEST_PROMPTS] < 0.08 < wrong["plain", FEWEST_PROMPTS]
