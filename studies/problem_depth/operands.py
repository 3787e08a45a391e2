"""When does the input of each step leave its token? Permutations of one point, patched from one another.

    python -m studies.problem_depth.operands checkpoints/permutations_8 checkpoints/permutations_12

A factor that moves the point is the input of a step. Each problem is patched from the next, with untrained models
beside (``CONTROL``): ``patching`` then says at which boundary each factor's token is left (``operand_left``), and by
how many boundaries later that of a next step (``operand_slope``). Later factors stand nearer to the answer, which
untrained models show too: only what is left of the slope beside theirs is the training's.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from bathyscope import Model, Prompt, Run, load, survey
from bathyscope.errors import OptionError
from bathyscope.extend.prompts import tokenized
from studies.common.across_seeds import apart, show_together, shown
from studies.common.console import write, write_table

PROBLEMS = "task:permutations:120?factors=5-8&beyond=9-9&elements=generators&answer=image"
CONTROL = "untrained:3"
SEED = 1


def moving_factors(pieces: Sequence[str]) -> list[int]:
    """Tokens of the factors that move the point on its way, in order; ``pieces`` are a problem's tokens as texts.

    Raises:
        OptionError: no question of where a point is sent.
    """
    words = [piece.strip() for piece in pieces]
    if "of" not in words[:-1]:
        raise OptionError("The problems do not ask where a point is sent; give permutations with answer=image.")
    asked = words.index("of")
    point, found = words[asked + 1], []
    for token, word in enumerate(words[:asked]):
        cycle = word.strip("()") if word.startswith("(") else ""
        if point in cycle:
            found.append(token)
            point = cycle[(cycle.index(point) + 1) % len(cycle)]
    return found


def patched(model: Model, problems: str = PROBLEMS, *, control: str | None = CONTROL) -> Run:
    """Problems of two steps or more, each patched from the next."""
    read = tokenized(model, problems, seed=SEED)
    steps = [moving_factors(read.pieces(number)) for number in range(len(read))]
    prompts = [
        Prompt(ids=prompt.ids, answer_tokens=prompt.answer_tokens, labels={"operands": " ".join(map(str, own))})
        for prompt, own in zip(read, steps)
        if len(own) > 1
    ]
    pairs = [(number, (number + 1) % len(prompts)) for number in range(len(prompts))]
    return survey(model, prompts, "patching", patching={"pairs": pairs}, control=control, progress=False)


def rows_of(name: str, run: Run) -> list[list[str]]:
    """A row for the model and one for each of its controls: the slope with its interval, and the mean by step."""
    rows = []
    for label, one in {name: run, **run.controls}.items():
        found = one["patching"]
        slope, low, high = (float(found[f"operand_slope{end}"]) for end in ("", "_low", "_high"))
        left = found["operand_left"].values
        counts = np.isfinite(left).sum(0)
        means = [f"{own[np.isfinite(own)].mean():.1f}" for own, count in zip(left.T, counts) if count >= 10]
        rows.append([label, f"{slope:+.2f} ({low:+.2f} to {high:+.2f})", " ".join(means), str(left.shape[0])])
    return rows


def main(folders: list[str]) -> None:
    """Prints a table of the models in some folders, and what models of equally many blocks say together."""
    rows: list[list[str]] = []
    by_blocks: dict[int, dict[str, list[float]]] = {}
    for folder in folders:
        model = load(folder, device="cpu", dtype="float32")
        run = patched(model)
        rows += rows_of(folder, run)
        own = by_blocks.setdefault(model.n_blocks, {"trained": [], "untrained": []})
        own["trained"].append(_slope(run))
        # untrained models are drawn from seeds of their own: those beside another model of the shape are the same ones
        own["untrained"] = [_slope(control) for control in run.controls.values()]
    write_table(["model", "boundaries a step", "left at, by step", "problems"], rows, "When a step's input is left")
    show_together(by_blocks)
    for blocks, own in by_blocks.items():
        if len(own["trained"]) > 1:
            write(f"{blocks} blocks, trained less untrained: {shown(apart(own['trained'], own['untrained']))} (Welch).")


def _slope(run: Run) -> float:
    return float(run["patching"]["operand_slope"])


if __name__ == "__main__":
    main(sys.argv[1:])
