"""Is depth used for what a model writes: does it follow the steps of a problem, and does it go with being right?

Each model continues its questions greedily, what it wrote is surveyed, and untrained models read the same tokens. Word
problems have no answer that could be compared token by token; there the last number that was written is compared.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import xarray as xr

from bathyscope import Prompt, Run, load, survey, written
from bathyscope.extend import untrained
from bathyscope.extend.statistics import trend
from studies.common.stored import stored_smollm2
from studies.instruments.readings import PERMUTATIONS

QUANTITIES: Final = ("settle_depth", "prediction_depth", "deep_thinking_ratio")
STEPS: Final = "steps"
"""Label of problems with the number of their steps."""
_NUMBER: Final = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


def write_permutations(name: str, count: int, controls: int, out: Path, checkpoints: Path) -> dict[str, Any]:
    """Let a model of permutations answer, and relate the depth of its answers to steps and to being right.

    Args:
        name: of a folder of ``checkpoints``.
        count: problems that are generated.
        controls: untrained models that read the same tokens.
    """
    model = load(checkpoints / name, device="cpu", dtype="float32")
    run = survey(
        model,
        PERMUTATIONS.format(count=count),
        ["lens"],
        out / "runs" / f"writing-{name}",
        write=1,
        control=f"untrained:{controls}",
        progress=False,
    )
    steps = np.array(run.prompts.label(STEPS), dtype=np.float64)
    right = np.array(run.prompts.label("right"), dtype=np.float64)
    readings = {label: relate(one, right, steps) for label, one in {"trained": run, **run.controls}.items()}
    return {"model": name, "prompts": len(right), "right": int(right.sum()), "tokens": 1, "readings": readings}


def write_word_problems(count: int, tokens: int, controls: int, data: Path, out: Path) -> dict[str, Any]:
    """Let SmolLM2 solve word problems greedily; the last number that it wrote is compared with the answer.

    Args:
        count: first problems of GSM8K.
        tokens: that are written at most.
        controls: untrained models that read the same tokens.
        data: folder with ``gsm8k/test_first600.jsonl``.
    """
    lines = (data / "gsm8k" / "test_first600.jsonl").read_text(encoding="utf-8").splitlines()[:count]
    rows = [json.loads(line) for line in lines]
    model = load(stored_smollm2(), device="cpu", dtype="float32")
    folder = out / "runs" / "writing-smollm2"
    questions = [Prompt(row["question"]) for row in rows]
    run = survey(model, questions, ["lens"], folder / "trained", write=tokens, chat=True, progress=False)
    texts = ["".join(run.prompts.pieces(n)[-(prompt.answer_tokens or 0) :]) for n, prompt in enumerate(run.prompts)]
    right = np.array([float(last_number(text) == last_number(row["answer"])) for text, row in zip(texts, rows)])
    # a line of a solution is a step, and its last line the answer
    steps = np.array([float(row["answer"].count("\n")) for row in rows])
    runs = {"trained": run}
    for seed in range(controls):
        label = f"untrained-{seed}"
        lens = {"positions": "answer"}
        # what was written is read by the tokenizer that cut it, and an untrained model has no files to find it in
        control = replace(untrained(model, seed), given_tokenizer=model.tokenizer)
        runs[label] = survey(control, run.prompts, ["lens"], folder / label, lens=lens, progress=False)
    return {
        "model": "smollm2",
        "prompts": count,
        "right": int(right.sum()),
        "tokens": tokens,
        "ended": sum(bool(ended) for ended in run.prompts.label("ended")),
        "readings": {label: relate(one, right, steps) for label, one in runs.items()},
    }


def last_number(text: str) -> float | None:
    """Return the last number of a text; None without one."""
    numbers = _NUMBER.findall(text)
    return float(numbers[-1].replace(",", "")) if numbers else None


def relate(run: Run, right: np.ndarray, steps: np.ndarray) -> dict[str, Any]:
    """Return for every quantity its mean, its slope over steps, and its rank correlation with being right."""
    relabelled = run_with_right(run, right)
    correlations = written(relabelled).to_dataframe().set_index("quantity")
    rows = {}
    for quantity in QUANTITIES:
        values = np.asarray(run["lens"][quantity].values, dtype=np.float64)
        slope = trend(values, steps)
        correlation: Any = correlations.loc[quantity]
        rows[quantity] = {
            "mean": float(np.nanmean(values)),
            "slope": [slope.slope, slope.ci_low, slope.ci_high, slope.p_value],
            "correlation": [float(correlation[name]) for name in _CORRELATION],
        }
    return rows


_CORRELATION: Final = ("correlation", "correlation_low", "correlation_high", "p")


def run_with_right(run: Run, right: np.ndarray) -> Run:
    """Return the run with the label ``right`` of its prompts, as ``written`` reads it."""
    lens = run["lens"].assign_coords(right=("prompt", right))
    tree = run.tree.copy()
    tree["lens"] = xr.DataTree(lens)
    return replace(run, tree=tree)
