"""The loss curve of a run: loss of every step, and what evaluations found between."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

STEP, TREND = "#9db8cc", "#0072b2"
MARKS = ("o", "s", "^", "D", "v", "P")
HELD_OUT = ("#d55e00", "#009e73", "#a65a8a", "#5f6773", "#e69f00", "#20242b")
SMOOTHED = 50
"""The trend is the mean of about a fiftieth of all steps."""


def draw_curve(metrics: Sequence[dict[str, Any]], name: str, given: str = "") -> Figure:
    """The figure of a run; accuracies have a panel of their own.

    Args:
        metrics: records of steps (``step``, ``loss``) and of evaluations (``step``, ``held_out``).
        name: of the model.
        given: what held-out problems are given besides the question (``Recipe.given``).
    """
    evaluations = [record for record in metrics if "held_out" in record]
    scores = list(dict.fromkeys(key for record in evaluations for key in record["held_out"]))
    losses = [key for key in scores if key.endswith("_loss")]
    accuracies = [key for key in scores if key.endswith("_accuracy")]
    figure = Figure(figsize=(6.4, 6.4 if accuracies else 3.8), layout="constrained")
    panels = figure.subplots(2 if accuracies else 1, 1, sharex=True, squeeze=False)[:, 0]
    _draw_steps(panels[0], [record for record in metrics if "loss" in record])
    _draw_scores(panels[0], evaluations, losses, " (answers)" if accuracies else "")
    panels[0].set(ylabel="loss (nats per token)", title=f"Training of {name}")
    if accuracies:
        _draw_scores(panels[1], evaluations, accuracies)
        panels[1].set(ylabel=f"exact answers (share of problems){given}", ylim=(-0.03, 1.03))
    for panel in panels:
        panel.grid(alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
        panel.legend(frameon=False, fontsize="small")
    panels[-1].set_xlabel("step")
    return figure


def save_curve(metrics: Sequence[dict[str, Any]], name: str, path: Path, given: str = "") -> None:
    """Writes the figure as a PNG file."""
    draw_curve(metrics, name, given).savefig(path, dpi=144, format="png", metadata={"Software": None})


def _draw_steps(panel: Axes, records: Sequence[dict[str, Any]]) -> None:
    steps = np.array([record["step"] for record in records])
    losses = np.array([record["loss"] for record in records])
    width = max(1, len(losses) // SMOOTHED)
    panel.plot(steps, losses, color=STEP, linewidth=0.7, label="training, each step")
    if width > 1:
        trend = np.convolve(losses, np.ones(width) / width, mode="valid")
        panel.plot(steps[width - 1 :], trend, color=TREND, linewidth=1.6, label=f"training, last {width} steps")


def _draw_scores(panel: Axes, evaluations: Sequence[dict[str, Any]], keys: Sequence[str], remark: str = "") -> None:
    steps = [record["step"] for record in evaluations]
    for number, key in enumerate(keys):
        values = [record["held_out"][key] for record in evaluations]
        style = {"color": HELD_OUT[number % len(HELD_OUT)], "marker": MARKS[number % len(MARKS)]}
        label = f"held out: {key.rpartition('_')[0].replace('_', ' ')}{remark}"
        panel.plot(steps, values, markersize=4, linewidth=1.0, label=label, **style)  # type: ignore[arg-type]
