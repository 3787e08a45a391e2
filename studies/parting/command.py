"""``python -m studies.parting``: a model against copies that are changed in a known way."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import App

from studies.common.command import Quiet
from studies.common.console import quiet_libraries, say, write_table

if TYPE_CHECKING:
    from studies.parting.experiment import Comparison

app = App(name="parting")
_MODEL = "checkpoints/depth_12"
_PROMPTS = "problems:8?steps=1-3"


@app.command
def known(
    *,
    out: Path,
    model: str = _MODEL,
    prompts: str = _PROMPTS,
    seeds: int = 3,
    quiet: Quiet = False,
) -> int:
    """Train one block at a time, round to 8 bits, compute in bfloat16: is the change found where it is?

    Args:
        out: folder of the results and of one page.
        model: that is changed.
        prompts: that the models are compared on.
        seeds: trainings of each kind.
    """
    from studies.parting.experiment import known_changes

    with quiet_libraries(downloads=not quiet):
        return _carry_out(known_changes(model, range(seeds), prompts), out, "known", quiet)


@app.command
def gsm8k(
    *,
    model: str,
    data: Path,
    out: Path,
    steps: int = 20,
    compared: int = 4,
    tokens: int = 64,
    seeds: int = 3,
    quiet: Quiet = False,
) -> int:
    """Compare a real model with itself after a short training on GSM8K.

    Args:
        model: checkpoint, or a GGUF file.
        data: folder with train.jsonl and test_first600.jsonl.
        out: folder of the results and of one page.
        steps: of the training.
        compared: questions that the models are compared on.
        tokens: of each text, at most.
        seeds: trainings.
    """
    from studies.parting.experiment import fine_tuned

    with quiet_libraries(downloads=not quiet):
        comparisons = fine_tuned(model, data, range(seeds), steps=steps, compared=compared, tokens=tokens)
        return _carry_out(comparisons, out, "gsm8k", quiet)


@app.command
def logits(
    *,
    out: Path,
    model: str = _MODEL,
    prompts: str = _PROMPTS,
    seeds: int = 3,
    quiet: Quiet = False,
) -> int:
    """Train all weights as ``known`` does: do the changes of single blocks add up in logits, which are linear in them?

    Args:
        out: folder of the results.
        model: that is changed.
        prompts: that the models are compared on.
        seeds: trainings.
    """
    from studies.common.files import write_file
    from studies.parting.logits import trained_shares

    with quiet_libraries(downloads=not quiet):
        records = {kind: measure().record() for kind, measure in trained_shares(model, range(seeds), prompts).items()}
    write_file(out / "logits.json", (json.dumps(records, indent=1) + "\n").encode())
    rows = [
        [kind, *("{:.3f} ({:.3f} to {:.3f})".format(*record[name]) for name in ("sum", "left"))]
        for kind, record in records.items()
    ]
    write_table(("copy", "sum of single blocks", "left"), rows, "Shares of what all blocks together do to logits")
    say(f"Written: {out / 'logits.json'}", quiet)
    return 0


def _carry_out(comparisons: Mapping[str, Comparison], out: Path, name: str, quiet: bool) -> int:
    """Write results and pages as they come; those that are there are not made again."""
    from bathyscope import report
    from studies.common.files import write_file
    from studies.parting.experiment import record_of

    path = out / f"{name}.json"
    records = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for kind, compare in comparisons.items():
        if kind in records:
            continue
        result = compare()
        records[kind] = record_of(result)
        write_file(out / f"{name}.json", (json.dumps(records, indent=1) + "\n").encode())
        report(result, out / f"{name}-{kind.replace(', ', '-').replace(' ', '-')}.html")
    rows = [
        [
            kind,
            "–" if record["first"] is None else str(record["first"]),
            str(record["largest_graft"]),
            f"{record['output'][0]:.4g}",
            f"{record['cumulative_mean'][-1]:.4g}",
            "{:.3g} ({:.3g} to {:.3g})".format(*record["unexplained"]),
        ]
        for kind, record in records.items()
    ]
    headings = ("copy", "first", "largest graft", "KL of predictions", "all blocks", "unexplained")
    write_table(headings, rows, "Where the copies part; KL in nats a token")
    say(f"Written: {out / f'{name}.json'}", quiet)
    return 0
