"""The language of the code and of the prose; where a number stands below, it may fall and never rises.

``python tests/test_style.py`` prints today's tables; write them here after lowering them.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
ROOT = REPOSITORY / "src" / "bathyscope"
FILES = sorted(ROOT.rglob("*.py"))
ROOT_FILES = "root files"

BANNED_NAMES = {
    *("asked", "beside", "drawn", "found", "given", "held", "kept", "known", "made"),
    *("one", "own", "said", "shown", "told", "there", "wanted"),
}
"""Names that say nothing of what they hold; ``one`` is allowed in a comprehension that fits on one line."""
MOST_BANNED_NAMES = {
    # members of public classes: a probe's former name, what a reproduction has drawn, Verdict.own (twice), Cell.said
    "measures": 1,
    "pages": 1,
    "runs": 1,
    "surveying": 2,
}
"""Room → how often it binds a banned name, at most."""

BANNED_PROSE = (
    r"anew",
    r"foret(?:ell|ells|elling|old)",
    r"reckon(?:s|ed|ing)?",
    r"dear(?:er|est|ly)?",
    r"beside",
    r"suffice[sd]?",
    r"there (?:is|are) none",
    r"of before",
    r"(?:is|are) gone",
    r"from which on",
    r"that there (?:is|are) not",
)
"""Words of another century, as expressions that match whole words."""
MOST_BANNED_PROSE = {
    # conclusions of an earlier version, as the saved results of the real model hold them
    "docs": 2,
}
"""Room, or file or folder of documentation → how often it uses a banned word, at most."""

LEAST_SHARE_OF_COMMENTS = 0.0200
"""Lines of ``src`` that are comments, of all lines that are not empty."""
COMPLEX = 12


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def room_of(path: Path) -> str:
    """The room of a file of the package; files at its root count as one room."""
    first, *inside = path.relative_to(ROOT).parts
    return first if inside else ROOT_FILES


def name_targets(target: ast.expr) -> Iterator[ast.Name]:
    """Names that an assignment to ``target`` binds; attributes and items bind none."""
    if isinstance(target, ast.Name):
        yield target
    elif isinstance(target, ast.Tuple | ast.List):
        for element in target.elts:
            yield from name_targets(element)
    elif isinstance(target, ast.Starred):
        yield from name_targets(target.value)


def bound_names(tree: ast.Module) -> Iterator[str]:
    """Every name that a file binds, apart from ``one`` in comprehensions of one line.

    Functions, classes and attributes count whether or not they begin with an underscore.
    """
    for node in ast.walk(tree):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr | ast.For | ast.AsyncFor):
            targets = [node.target]
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            targets = [node.optional_vars]
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name.lstrip("_")
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name is not None:
            yield node.name
        elif isinstance(node, ast.alias) and node.asname is not None:
            yield node.asname
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr.lstrip("_")
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            names = [name.id for part in node.generators for name in name_targets(part.target)]
            fits_on_one_line = node.lineno == node.end_lineno
            yield from (name for name in names if not (name == "one" and fits_on_one_line))
        for target in targets:
            yield from (name.id for name in name_targets(target))


def count_banned_names() -> Counter[str]:
    """Room → how often it binds a banned name."""
    return Counter(room_of(path) for path in FILES for name in bound_names(parse(path)) if name in BANNED_NAMES)


def strings_of(tree: ast.Module) -> Iterator[str]:
    """Docstrings and all other string literals of a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def count_banned_words(texts: Iterable[str]) -> int:
    """How many banned words the texts hold."""
    pattern = re.compile(rf"\b(?:{'|'.join(BANNED_PROSE)})\b", re.IGNORECASE)
    return sum(len(pattern.findall(text)) for text in texts)


def _list_pages() -> list[Path]:
    """Pages of documentation that are written; those that the site's making leaves behind are not."""
    return [path for path in sorted((REPOSITORY / "docs").rglob("*.md")) if "generated" not in path.parts]


def count_banned_prose() -> dict[str, int]:
    """Room, or file or folder of documentation → how often it uses a banned word."""
    counts: Counter[str] = Counter()
    for path in FILES:
        counts[room_of(path)] += count_banned_words(strings_of(parse(path)))
    pages = {"README.md": [REPOSITORY / "README.md"], "docs": _list_pages()}
    for place, files in pages.items():
        counts[place] += count_banned_words(file.read_text(encoding="utf-8") for file in files)
    return dict(counts)


def share_of_comments() -> float:
    """Lines that hold a comment alone, divided by all lines that are not empty."""
    lines = [line.strip() for path in FILES for line in path.read_text(encoding="utf-8").splitlines()]
    return sum(line.startswith("#") for line in lines) / sum(bool(line) for line in lines)


def classes_named_twice() -> set[str]:
    """Names that more than one class of the package has."""
    names = Counter(node.name for path in FILES for node in ast.walk(parse(path)) if isinstance(node, ast.ClassDef))
    return {name for name, count in names.items() if count > 1}


def starred_calls() -> list[str]:
    """Places of calls whose arguments are unpacked from a tuple or list written on the spot."""
    return [
        f"{path.relative_to(REPOSITORY)}:{node.lineno}"
        for path in FILES
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Call)
        and any(
            isinstance(argument, ast.Starred) and isinstance(argument.value, ast.Tuple | ast.List)
            for argument in node.args
        )
    ]


def complex_functions(limit: int) -> list[tuple[Path, int]]:
    """File and line of each function above a cyclomatic complexity, as ruff counts it."""
    ruff = shutil.which("ruff")
    if ruff is None:
        pytest.skip("ruff is not installed")
    options = ["--isolated", "--select", "C901", "--config", f"lint.mccabe.max-complexity={limit}"]
    command = [ruff, "check", "--no-cache", "--exit-zero", "--output-format", "json", *options, str(ROOT)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    return [(Path(issue["filename"]), issue["location"]["row"]) for issue in json.loads(answer.stdout)]


def complex_without_comment() -> list[str]:
    """Functions above complexity 12 that hold no comment."""
    places = []
    for path, line in complex_functions(COMPLEX):
        functions = [
            node
            for node in ast.walk(parse(path))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.lineno == line
        ]
        with path.open("rb") as source:
            comments = [
                token.start[0] for token in tokenize.tokenize(source.readline) if token.type == tokenize.COMMENT
            ]
        places += [
            f"{path.relative_to(REPOSITORY)}:{line}"
            for function in functions
            if not any(function.lineno <= comment <= (function.end_lineno or line) for comment in comments)
        ]
    return places


def test_names_say_what_they_hold() -> None:
    counts = count_banned_names()
    over = {room: counts[room] for room in counts if counts[room] > MOST_BANNED_NAMES.get(room, 0)}
    assert not over, f"more banned names than before ({over}): name what the variable holds, as a noun of the field"


def test_prose_is_modern() -> None:
    counts = count_banned_prose()
    over = {place: counts[place] for place in counts if counts[place] > MOST_BANNED_PROSE.get(place, 0)}
    assert not over, f"more banned words than before ({over}); see BANNED_PROSE"


def test_tricks_are_commented() -> None:
    assert share_of_comments() >= LEAST_SHARE_OF_COMMENTS


def test_class_names_are_used_once() -> None:
    assert classes_named_twice() == set()


def test_arguments_are_written_out() -> None:
    assert starred_calls() == [], "write each argument on a line of its own"


def test_functions_stay_simple() -> None:
    assert complex_functions(15) == []
    assert complex_without_comment() == []


def test_the_counter_sees_every_way_to_bind_a_name() -> None:
    """An oracle of its own: every banned name once, in one kind of binding each, and some that are allowed."""
    source = """
def f(found, *own, said=1, **given): ...
told = 1
kept, (there, *made) = values
asked: int = 1
known += 1
for held in rows: ...
with rows as wanted: ...
if (beside := 1): ...
[drawn for drawn in rows]
{shown: 1 for shown in
 rows}
[one for one in
 rows]
[one for one in rows]
values["own"] = 1
values.found
f(found=1)
"""
    names = [name for name in bound_names(ast.parse(source)) if name in BANNED_NAMES]
    assert sorted(names) == sorted(BANNED_NAMES)


def test_the_counter_sees_definitions_and_attributes() -> None:
    source = """
import kept, numpy as known
def told(): ...
async def _given(): ...
class drawn: ...
self._found = self.own = values.made.rows = 1
try: ...
except ValueError as said: ...
match rows:
    case [one, *held] as wanted: ...
"""
    names = [name for name in bound_names(ast.parse(source)) if name in BANNED_NAMES]
    assert sorted(names) == sorted(["known", "told", "given", "drawn", "found", "own", "said", "one", "held", "wanted"])


def print_tables() -> None:
    """Print today's numbers, in the form in which this file holds them."""
    names, prose = count_banned_names(), count_banned_prose()
    for title, table in (("MOST_BANNED_NAMES", names), ("MOST_BANNED_PROSE", prose)):
        print(f"{title} = {{")
        for place in sorted(table):
            print(f'    "{place}": {table[place]},')
        print(f"}}  # together {sum(table.values())}")
    bound = sum(1 for path in FILES for _ in bound_names(parse(path)))
    print(f"bound names: {bound}")
    print(f"LEAST_SHARE_OF_COMMENTS = {share_of_comments():.4f}")
    print(f"class names used twice: {sorted(classes_named_twice())}")
    print(f"starred calls: {starred_calls()}")
    print(f"complex without a comment: {complex_without_comment()}; above 15: {complex_functions(15)}")


if __name__ == "__main__":
    print_tables()
