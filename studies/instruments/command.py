"""``python -m studies.instruments``: measure the page's rows, and write the page from what is stored."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from cyclopts import App

from bathyscope.errors import OptionError
from studies.common.console import say
from studies.common.files import write_file

RESULTS: Final = Path(__file__).parent / "results"
PAGE: Final = Path("docs/instruments.md")
CHECKPOINTS: Final = Path("checkpoints")
PROMPTS: Final = {"permutations_8": 300, "permutations_12": 300, "depth_6": 80, "depth_12": 50, "depth_24": 30}
"""Model → prompts whose readings are the population of the simulation."""
WRITTEN: Final = ("permutations_8", "permutations_12", "smollm2")
_NUMBERS: Final = re.compile(r'\[\n([^\[\]{}"]*)\]')
"""A list of JSON with neither texts, lists nor objects in it."""
app = App(name="instruments")


@app.command
def lenses(*models: str, data: Path, out: Path) -> int:
    """Fit and read Jacobian lenses: the bundled model and SmolLM2, each next to three untrained models.

    Args:
        models: such as smollm2, or smollm2/untrained-1 for one of its rows; none = all.
        data: folder with text/books_valid.txt and text/wikitext2_valid.txt.
        out: folder of the surveys.
    """
    from studies.instruments.lenses import CASES, read_with_lens

    rows = [f"{name}/{label}" for name, case in CASES.items() for label in case.labels]
    for row in _chosen(rows, models):
        name, _, label = row.partition("/")
        _store(f"lenses_{name}_{label}", partial(read_with_lens, name, label, data, out))
    return 0


@app.command
def sampling(*, data: Path) -> int:
    """Compare sampled Jacobian lenses of the bundled model with the exact one.

    Args:
        data: folder with text/books_valid.txt.
    """
    from studies.instruments.lenses import sampling_errors

    _store("sampling_bundled", lambda: sampling_errors(data))
    return 0


@app.command
def choices(*models: str, data: Path, out: Path, checkpoints: Path = CHECKPOINTS) -> int:
    """Choose blocks on three domains.

    Args:
        models: depth_12, depth_24 or smollm2; none = all.
        data: folder with text/books_valid.txt, text/wikitext2_valid.txt and text/tinyshakespeare.txt.
        out: folder of the plans.
        checkpoints: folder of the models.
    """
    from studies.instruments.choices import CASES, choose_by_domain

    for name in _chosen(list(CASES), models):
        _store(f"choices_{name}", partial(choose_by_domain, name, data, out, checkpoints))
    return 0


@app.command
def writing(
    *models: str,
    data: Path,
    out: Path,
    count: int = 24,
    tokens: int = 96,
    controls: int = 1,
    checkpoints: Path = CHECKPOINTS,
) -> int:
    """Survey what models write.

    Args:
        models: permutations_8, permutations_12 or smollm2; none = all.
        data: folder with gsm8k/test_first600.jsonl.
        out: folder of the surveys.
        count: problems of GSM8K.
        tokens: that are written at most.
        controls: untrained models of SmolLM2's shape; the others have three.
        checkpoints: folder of the models.
    """
    from studies.instruments.writing import write_permutations, write_word_problems

    for name in _chosen(WRITTEN, models):
        if name == "smollm2":
            _store(f"writing_{name}", lambda: write_word_problems(count, tokens, controls, data, out))
        else:
            _store(f"writing_{name}", partial(write_permutations, name, 400, 3, out, checkpoints))
    return 0


@app.command
def enough(*models: str, out: Path, checkpoints: Path = CHECKPOINTS) -> int:
    """Simulate surveys until they are sure, on readings of real prompts.

    Args:
        models: depth_6, depth_12, depth_24, permutations_8 or permutations_12; none = all.
        out: folder of the surveys.
        checkpoints: folder of the models.
    """
    from studies.instruments.enough import simulate_all
    from studies.instruments.readings import read_prompts

    for name in _chosen(list(PROMPTS), models):
        file = RESULTS / f"readings_{name}.json"
        if not file.exists():
            _store(file.stem, partial(read_prompts, name, PROMPTS[name], out, checkpoints))
        readings = json.loads(file.read_text(encoding="utf-8"))
        _store(f"enough_{name}", partial(simulate_all, name, readings))
    return 0


@app.command
def page(to: Path = PAGE) -> int:
    """Write the tables and the figure of the page from the stored results.

    Args:
        to: the page, whose texts between tables stay.
    """
    from bathyscope.extend.figures import render
    from studies.instruments.figure import draw_lenses
    from studies.instruments.page import lens_results, read_results, rewrite

    to.write_text(rewrite(to.read_text(encoding="utf-8"), RESULTS), encoding="utf-8")
    image = to.parent / "images" / "lenses.png"
    write_file(image, render(draw_lenses(lens_results(read_results(RESULTS))), "png"))
    say(f"Written: {to}, {image}", False)
    return 0


def _chosen(names: Sequence[str], asked: Sequence[str]) -> list[str]:
    """Return the names that were asked for, or that begin with one; all where none was."""
    chosen = [name for name in names if not asked or name in asked or name.partition("/")[0] in asked]
    unknown = [name for name in asked if not any(name in (known, known.partition("/")[0]) for known in names)]
    if unknown:
        raise OptionError(f"There is no {unknown[0]!r}; give {', '.join(names)}.")
    return chosen


def _store(name: str, measure: Callable[[], Any]) -> None:
    write_file(RESULTS / f"{name}.json", json_text(measure()).encode())
    say(f"Written: {RESULTS / name}.json", False)


def json_text(content: Any) -> str:
    """Return JSON with an entry a line, where a list of numbers is one line."""
    text = json.dumps(content, indent=1, allow_nan=True)
    # a line ends in no string of JSON, so that such a bracket begins a list
    return _NUMBERS.sub(lambda row: f"[{' '.join(row[1].split())}]", text) + "\n"
