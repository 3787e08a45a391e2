"""docs/prompts.md says what there is: every data set as it is declared, every generator, every option."""

from __future__ import annotations

import re
from inspect import signature
from pathlib import Path

from bathyscope.prompts.datasets import REGISTRY
from bathyscope.prompts.generators import GENERATORS, ArithmeticGenerator
from bathyscope.prompts.hub import column_prompts
from bathyscope.prompts.levels import DIFFICULTY_LABELS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "prompts.md").read_text(encoding="utf-8")


def rows_under(heading: str) -> dict[str, list[str]]:
    """The rows of the section's table that begin with a name in code, by that name."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:2] == "| ")
    return {cells[0].strip("`"): cells[1:] for cells in rows if cells[0].startswith("`")}


def test_every_data_set_is_listed_as_declared() -> None:
    listed = rows_under("Data sets")
    assert set(listed) == set(REGISTRY)
    for name, (hub, config, split, columns, level, source) in listed.items():
        declared = REGISTRY[name]
        assert (hub or None, config or None, split or None) == (declared.hub, declared.config, declared.split)
        assert tuple(columns.split(", ")) == declared.columns
        assert (level or None) == declared.level
        assert all(key in declared.source for key in source.split(", "))


def test_every_generator_and_option_is_listed() -> None:
    listed = rows_under("Generated problems")
    # those of tasks are listed with the tasks
    generators = {name: one for name, one in GENERATORS.items() if isinstance(one, ArithmeticGenerator)}
    assert set(listed) == set(generators)
    for name, generator in generators.items():
        assert set(generator.axes) <= set(listed[name][1].split(", "))
    options = {key for data_set in REGISTRY.values() for key in data_set.options}
    options |= {key for generator in generators.values() for key in generator.options} | {
        "window",
        "chars",
        "limit",
        "tokens",
        "documents",
    }
    options |= set(signature(column_prompts).parameters) - {"hub", "split", "count", "missing"}
    assert set(DIFFICULTY_LABELS) < options
    assert set(re.findall(r"`(\w+)=`", PAGE)) == options
