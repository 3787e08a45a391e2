"""The pages of experiments: every command that they print is one that its program takes, on files that are there."""

from __future__ import annotations

import csv
import json
import re
import subprocess
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from bathyscope_lab.recipes import read_recipe
from cyclopts import App, CycloptsError
from scipy import stats

from bathyscope.extend.statistics import holm

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "experiments"
RECORD = """
python() { printf '%s\\0' python "$@"; printf '\\n'; }
bathyscope() { printf '%s\\0' bathyscope "$@"; printf '\\n'; }
"""
"""The two programs as shell functions that print what they were given."""
RECIPE_OF = {
    "studies.problem_depth": ["permutations"],
    "studies.sharing": ["arithmetic_transformer", "arithmetic_moeut"],
}
"""What --set changes where no recipe is given."""
GIVEN_BY_READERS = ("texts/", "FOLDER", "expression.jsonl")
"""Data sets, places that a reader puts something in, and the one file that a caption describes."""


def commands(page: str) -> list[list[str]]:
    """What a page's blocks and lines of code call, after the shell's own expansions."""
    text = (PAGES / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```\n(.*?)^```", text, re.M | re.S)
    lines = re.findall(r"`((?:python -m|bathyscope) [^`]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))
    # -u: a page is read alone, so a variable of another page is an error
    script = RECORD + "\n".join([*blocks, *(line.replace("\n", " ") for line in lines)])
    printed = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, check=True, timeout=60).stdout
    return [line.split("\0")[:-1] for line in printed.splitlines()]


def pages() -> list[str]:
    """The pages in the order of their table, each of which may use what those before it wrote."""
    table = re.findall(r"^\| .*\]\((\w+\.md)\) \|$", (PAGES / "index.md").read_text(encoding="utf-8"), re.M)
    assert sorted(["index.md", *table]) == sorted(path.name for path in PAGES.iterdir())
    return table


COMMANDS = [words for page in pages() for words in commands(page)]
OWN = [words for words in COMMANDS if words[0] == "python"]
"""Those of studies; whether the program takes its own is looked at for all pages together."""


def application(words: list[str]) -> tuple[App, list[str]]:
    """The application of a command, and the words that it is given."""
    assert words[:2] == ["python", "-m"]
    name = words[2]
    found = find_spec(name)
    assert found is not None, name
    module = import_module(f"{name}.command" if found.submodule_search_locations else name)
    own = getattr(module, "app", None)
    if own is None:
        own = App()
        own.default(getattr(module, f"{name.rpartition('.')[2]}_command", _folders))
    return own, words[3:]


def _folders(*folders: str) -> None:
    """What programs take that have no flags."""


def test_all_commands_are_found() -> None:
    called = [words[2] if words[0] == "python" else " ".join(words[:2]) for words in COMMANDS]
    assert called.count("studies.depth_family") >= 3
    assert {"studies.nulls", "studies.sharing", "studies.pruning", "bathyscope lab", "bathyscope survey"} <= set(called)
    # braces and variables are expanded as a shell does
    arrival = next(words for words in COMMANDS if words[2] == "studies.problem_depth.arrival")
    assert [word.rpartition("/")[2] for word in arrival[3:]] == [
        f"{n}-blocks-seed-{k}" for n in (8, 12) for k in range(3)
    ]


@pytest.mark.parametrize("words", OWN, ids=lambda words: " ".join(words)[:60])
def test_a_printed_command_is_one_that_its_program_takes(words: list[str]) -> None:
    own, given = application(words)
    called = own.parse_args(given, exit_on_error=False, print_error=False)[0]
    assert callable(called)


def test_a_command_with_a_flag_that_is_not_there_would_be_found() -> None:
    own, given = application([*OWN[0], "--no-such-flag", "1"])
    with pytest.raises(CycloptsError):
        own.parse_args(given, exit_on_error=False, print_error=False)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words)[:60])
def test_recipes_take_the_changes_that_a_command_makes(words: list[str]) -> None:
    changes = [word for before, word in pairwise(words) if before == "--set"]
    recipes = values_of(words, "--recipes")
    if words[:3] == ["bathyscope", "lab", "train"]:
        recipes = [words[3]]
    elif not recipes and changes:
        recipes = RECIPE_OF[words[2]]
    assert all(read_recipe(recipe, changes) is not None for recipe in recipes)


def test_files_are_there_or_come_from_a_command_before() -> None:
    made: list[str] = [
        "experiments/permutations/models",
        "experiments/kept/models",
        "written/",
        "models/",
        "experiments/sharing/models",
        "tuned/",
    ]
    outs = [out for words in COMMANDS for out in values_of(words, "--out")]
    # each of these is under the --out of some command, or its sibling that "likewise" stands for
    assert all(any(out.startswith(place.rstrip("/")) or place.startswith(out) for out in outs) for place in made)
    for words in COMMANDS:
        for word in re.split(r"[ ,=]", " ".join(words[3:])):
            path = word.split(":")[0]
            if re.fullmatch(r"[\w.-]+(/[\w.-]+)+", path) and path not in outs:
                known = path.startswith((*made, *GIVEN_BY_READERS)) or (ROOT / path).exists()
                assert known, f"{path} in {' '.join(words)}"


@pytest.mark.parametrize("page", pages())
def test_a_page_says_whether_its_results_are_stored(page: str) -> None:
    text = " ".join((PAGES / page).read_text(encoding="utf-8").split())
    stored = re.findall(r"`(studies/\w+/results[\w/.]*)`", text)
    assert stored or "Results are not stored" in text
    assert all((ROOT / path).exists() for path in stored)


def test_slopes_by_seed_are_those_that_the_page_prints() -> None:
    """Ten slopes of three seeds: means and Student's intervals as in the table, and Holm's p of all ten together."""
    text = (PAGES / "number_of_steps.md").read_text(encoding="utf-8")
    slopes: dict[tuple[str, str], list[float]] = {}
    stored = ROOT / "studies" / "problem_depth" / "results" / "slopes.csv"
    for row in csv.DictReader(stored.read_text(encoding="utf-8").splitlines()):
        slopes.setdefault((row["reading"], row["blocks"]), []).append(float(row["slope"]))
    assert len(slopes) == 10
    p_values, bold = {}, set()
    for (reading, blocks), values in slopes.items():
        line = next(line for line in text.splitlines() if line.startswith(f"| {reading} | ") and line.count("|") == 8)
        cells = [cell.strip().replace("−", "-") for cell in line.strip("|").split("|")]
        by_seed, mean = cells[1:3] if blocks == "8" else cells[4:6]
        assert [float(value) for value in by_seed.split(",")] == values
        printed = [float(number) for number in re.findall(r"[+-]\d\.\d\d", mean)]
        reach = float(stats.t.ppf(0.975, 2) * stats.sem(values))
        # seeds are printed to a hundredth, and the interval of those that were not rounded
        assert printed == pytest.approx([np.mean(values), np.mean(values) - reach, np.mean(values) + reach], abs=0.03)
        bold |= {(reading, blocks)} if mean.startswith("**") else set()
        p_values[reading, blocks] = float(stats.ttest_1samp(values, 0.0).pvalue)
    corrected = dict(zip(p_values, holm(np.array(list(p_values.values())))))
    erasure = [corrected["erasure depth", blocks] for blocks in ("12", "8")]
    assert f"p is {erasure[0]:.3f} for erasure depth in 12 blocks and {erasure[1]:.2f} in 8" in " ".join(text.split())
    others = bold - {("erasure depth", "12"), ("erasure depth", "8")}
    assert len(others) == 4
    assert all(corrected[name] > 0.05 for name in others)


@pytest.mark.parametrize("name", ["known", "gsm8k"])
def test_the_shares_of_single_grafts_are_those_stored(name: str) -> None:
    text = " ".join((PAGES / "parting.md").read_text(encoding="utf-8").split())
    stored = (ROOT / "studies" / "parting" / "results" / f"{name}.json").read_text(encoding="utf-8")
    whole = {key: row for key, row in json.loads(stored).items() if "all blocks" in key or name == "gsm8k"}
    shares = [row["unexplained"][0] / row["cumulative_mean"][-1] for row in whole.values()]
    assert len(shares) == 3
    if name == "known":
        single = [f"{1 - share:.2f}" for share in shares]
        assert f"({single[0]}, {single[1]} and {single[2]} of it)" in text
    else:
        assert f"({min(shares):.2f} to {max(shares):.2f} of what all blocks do)" in text
    # n changes of one size, of which each two correlate by r, are n (1 + (n − 1) r) of one together
    blocks, said = {"known": (12, "leave 0.77 unexplained"), "gsm8k": (30, "would leave 0.90")}[name]
    assert f"{1 - 1 / (1 + 0.3 * (blocks - 1)):.2f}" in said
    assert said in text


def test_the_shares_of_logits_are_those_stored() -> None:
    text = (PAGES / "parting.md").read_text(encoding="utf-8")
    stored = json.loads((ROOT / "studies" / "parting" / "results" / "logits.json").read_text(encoding="utf-8"))
    assert len(stored) == 3
    for kind, record in stored.items():
        cells = [
            kind.rpartition(", ")[2],
            *("{:.2f} ({:.2f} to {:.2f})".format(*record[key]) for key in ("sum", "left")),
        ]
        assert f"| {' | '.join(cells)} |" in text
    first = [100 * record["by_block"][0] for record in stored.values()]
    others = max(100 * share for record in stored.values() for share in record["by_block"][1:])
    assert f"(block 0 has {min(first):.0f} to {max(first):.0f} % of it, no other more than {others:.0f} %)" in text


def values_of(words: list[str], flag: str) -> list[str]:
    """The values of a flag, split at commas."""
    return [one for before, word in pairwise(words) if before == flag for one in word.split(",")]
