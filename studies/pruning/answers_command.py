"""``python -m studies.pruning.answers_command``: likelihood and answers, side by side, for every single drop."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import pandas as pd
from cyclopts import App
from matplotlib.figure import Figure, FigureBase

from bathyscope.extend.figures import Panel, arrange, style
from studies.common.command import Quiet
from studies.common.console import quiet_libraries, say, write, write_table
from studies.common.program import main
from studies.pruning.answers import FULL, Judged, judged, problems
from studies.pruning.experiment import PERMUTATIONS

_TICKS: Final = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)


def answers_command(
    *,
    out: Path,
    model: str = "checkpoints/permutations_12",
    count: int = 1000,
    seed: int = 7,
    resamples: int = 2000,
    quiet: Quiet = False,
) -> int:
    """Leave out every block alone, and see what becomes of the answer's likelihood and of answers that are written.

    Args:
        out: folder of the results (CSV) and the figure.
        model: a model of the permutation problems.
        count: different problems.
        seed: of the problems.
        resamples: bootstrap resamples of the problems.
    """
    from bathyscope import load
    from bathyscope.extend.figures import render
    from studies.common.files import write_file

    out.mkdir(parents=True, exist_ok=True)
    with quiet_libraries(downloads=not quiet):
        loaded = load(model, dtype="float32")
        asked = problems(loaded, PERMUTATIONS, count, seed)
        found = judged(loaded, asked, resamples)
    write_file(out / "answers.csv", found.table.to_csv(index=False).encode())
    write_file(out / "answers.png", render(draw(found), "png"))
    shown = [
        [row["dropped"], *(_shown(row, name) for name in ("cost", "exact", "lost"))]
        for _, row in found.table.iterrows()
    ]
    write_table(("left out", "cost (nats)", "exact answers", "answers lost"), shown, f"{found.problems} problems, 95 %")
    write(said(found))
    say(f"Written: {out / 'answers.csv'}, {out / 'answers.png'}", quiet)
    return 0


def said(found: Judged) -> str:
    """Whether the two rankings agree."""
    drops = found.table[found.table["dropped"] != FULL]
    value, low, high = found.agreement
    alike = {name: ", ".join(drops.loc[drops[name].astype(bool), "dropped"]) for name in ("cheapest", "surest")}
    return (
        f"Rank correlation of cost and answers lost over {len(drops)} drops: {value:.3f} ({low:.3f} to {high:.3f}). "
        f"Cannot be told from the cheapest: {alike['cheapest']}; from what keeps most answers: {alike['surest']}."
    )


def _shown(row: pd.Series, name: str) -> str:
    if pd.isna(row[name]):
        return "–"
    return f"{row[name]:.3f} ({row[f'{name}_low']:.3f} to {row[f'{name}_high']:.3f})"


def draw(found: Judged) -> Figure:
    """A point for every drop, by both."""
    value, low, high = found.agreement
    caption = (
        f"Every block left out alone, on {found.problems} problems: what it costs, and the share of exact answers that "
        "is left. Whiskers: 95 % intervals over problems; dashed: the full model. Rank correlation of cost and answers "
        f"lost {value:.2f} ({low:.2f} to {high:.2f})."
    )

    def panel(figure: FigureBase) -> None:
        ax = figure.subplots()
        rows = found.table[found.table["dropped"] != FULL]
        ax.hlines(rows["exact"], rows["cost_low"], rows["cost_high"], color=style.BLUE, alpha=0.5)
        ax.vlines(rows["cost"], rows["exact_low"], rows["exact_high"], color=style.BLUE, alpha=0.5)
        ax.plot(rows["cost"], rows["exact"], "o", color=style.BLUE, markersize=4)
        # by turns above and below: neighbours cost about the same
        for number, (_, row) in enumerate(rows.sort_values("cost").iterrows()):
            place, away = (row["cost"], row["exact"]), (2, 5) if number % 2 else (-5, -11)
            ax.annotate(row["dropped"], place, away, textcoords="offset points", fontsize=7)
        ax.axhline(float(found.table["exact"].iloc[0]), color=style.MUTED, linestyle="--", linewidth=1)
        ax.set_xscale("symlog", linthresh=0.1)
        ax.set_xlim(0, 1.3 * float(rows["cost_high"].max()))
        ax.set_xticks(_TICKS, [f"{tick:g}" for tick in _TICKS])
        ax.set_xticks([], minor=True)
        ax.set_ylim(0, 1)
        ax.set_xlabel("cost (nats per answer token)")
        ax.set_ylabel("exact answers")
        ax.set_title("Blocks left out alone")

    return arrange(caption, [Panel("answers", panel, caption)])


app = App(name="answers")
app.default(answers_command)

if __name__ == "__main__":
    sys.exit(main(None, app, "python -m studies.pruning.answers_command"))
