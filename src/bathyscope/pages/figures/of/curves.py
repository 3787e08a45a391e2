"""Drop, swap and repeat: what a changed schedule does to the prediction, block by block.

Source: lad2024.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import xarray as xr

from bathyscope.pages.figures.kind import Drawing, FigureKind, Panel, drop_empty
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.lines import make_chart, unit
from bathyscope.pages.figures.kit.series import PLACES, Axis, Curve, Look
from bathyscope.pages.figures.kit.summary import describe
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.text.provenance import measure_options
from bathyscope.runs.run import Run


@dataclass(frozen=True)
class Further:
    """A further intervention at every place: the suffix of its variables, and its words as those of a ``Change``."""

    suffix: str
    circumstance: str
    axis: str


@dataclass(frozen=True)
class Change:
    """One kind of changed schedule: ``circumstance`` ends every panel's title, ``what`` begins the caption."""

    heading: str
    circumstance: str
    axis: str
    what: Callable[[Run], str]
    further: tuple[Further, ...] = ()


_CHANGED: Final = {"loss": style.PURPLE, "entropy": style.BLUE}


def _make_drawing(measure: str, change: Change, run: Run, options: FigureOptions) -> Drawing:
    """Draw KL, agreement, loss difference and entropy against the block."""
    data = run[measure]
    moved = Axis(
        f"How far predictions move {change.circumstance}", change.axis, "KL(normal ‖ changed) ({unit})", "auto"
    )
    same = Axis(f"Top-1 token unchanged {change.circumstance}", change.axis, "top-1 agreement (share of tokens)")
    panels = [
        make_chart("kl", data, moved, [Curve("kl", "KL", Look(style.VERMILION))], options),
        make_chart("top1_agreement", data, same, [Curve("top1_agreement", "agreement", Look(style.GREEN))], options),
    ]
    for name, colour in _CHANGED.items():
        if name in data:
            # The difference from the unchanged model, prompt by prompt.
            added = data.assign({name: data[name] - data[f"baseline_{name}"]})
            title, y = f"{name.capitalize()} added {change.circumstance}", f"added {name} ({unit(data[name])})"
            axis = Axis(title, change.axis, y, "bent", rules={0.0: ""})
            panels.append(make_chart(name, added, axis, [Curve(name, f"{name} difference", Look(colour))], options))
    for further in change.further:
        panels += _make_further(data, further, options)
    note = (
        f"{change.what(run)} Compared with the unchanged model at {_describe_positions(run, measure)}. "
        f"{describe(options, data.sizes['prompt'])}"
    )
    return Drawing(drop_empty(panels), note)


def _make_further(data: xr.Dataset, further: Further, options: FigureOptions) -> list[Panel | None]:
    """Make the panels of KL and added loss under a further intervention, where it was measured."""
    kl, loss = f"kl_{further.suffix}", f"loss_{further.suffix}"
    if kl not in data or loss not in data:
        return []
    moved = Axis(
        f"How far predictions move {further.circumstance}", further.axis, "KL(normal ‖ changed) ({unit})", "auto"
    )
    title, y = f"Loss added {further.circumstance}", f"added loss ({unit(data[loss])})"
    added = data.assign({loss: data[loss] - data["baseline_loss"]})
    axis = Axis(title, further.axis, y, "bent", rules={0.0: ""})
    return [
        make_chart(kl, data, moved, [Curve(kl, "KL", Look(style.VERMILION))], options),
        make_chart(loss, added, axis, [Curve(loss, "loss difference", Look(style.PURPLE))], options),
        _make_self_repair(data, further, options),
    ]


def _make_self_repair(data: xr.Dataset, further: Further, options: FigureOptions) -> Panel | None:
    """Make the panel of what later blocks make up for, of direct effects."""
    if further.suffix != "direct" or "self_repair" not in data:
        return None
    y = f"direct − total loss ({unit(data['self_repair'])})"
    axis = Axis("Made up for by later blocks", further.axis, y, "bent", rules={0.0: ""})
    return make_chart("self_repair", data, axis, [Curve("self_repair", "self-repair", Look(style.BLUE))], options)


def _describe_positions(run: Run, measure: str) -> str:
    """Say which tokens of a prompt the means are over."""
    options = measure_options(run, measure)
    if options.get("read_tokens") is not None:
        return (
            f"{options['read_tokens']} tokens of each prompt, drawn at random from those that have a next one, with "
            "those that predict its answer among them"
        )
    if options.get("positions") == "published":
        return "every position but the last for the loss, and every one but the first for all else"
    return "every position that has a next token"


def _describe_drop(run: Run) -> str:
    options = measure_options(run, "drop")
    if options.get("replace") == "mean":
        left_out = "In turn, each block's contribution is replaced by its mean over the tokens of the other prompts."
    else:
        left_out = "Each block in turn is left out at all positions."
    if "self_repair" not in run["drop"]:
        return left_out
    return (
        f"{left_out} Direct effects take the contribution from the last stream alone, every other block adding what it "
        "adds in the whole model; self-repair is what later blocks make up for, direct minus total loss."
    )


def _describe_repeat(run: Run) -> str:
    options = measure_options(run, "repeat")
    window = f"window of {options['length']} blocks" if "length" in options else "window of blocks"
    often = f"{options['times'] + 1} times" if "times" in options else "more than once"
    return f"Each {window} in turn is repeated: every block in it runs {often} in a row."


_CHANGES: Final = {
    "drop": Change(
        "One block dropped",
        "without one block",
        PLACES["dropped"],
        _describe_drop,
        (Further("direct", "by a removal's direct effect", PLACES["dropped"]),),
    ),
    "swap": Change(
        "Two neighbouring blocks swapped",
        "with neighbours swapped",
        PLACES["swapped"],
        lambda run: "Each pair of neighbours in turn runs in the other order: block ℓ+1, then block ℓ.",
        (Further("parallel", "with neighbours in parallel", PLACES["parallel"]),),
    ),
    "repeat": Change("A window of blocks repeated", "with a window repeated", PLACES["start"], _describe_repeat),
}
FIGURES: Final = {
    name: FigureKind(name, change.heading, ("kl", "top1_agreement", *_CHANGED), partial(_make_drawing, name, change))
    for name, change in _CHANGES.items()
}
