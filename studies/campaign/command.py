"""``python -m studies.campaign``: measures the papers' numbers, the smallest models first, and writes one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from studies.campaign.running import Campaign
from studies.campaign.stages import Machine, Stage, stages_of
from studies.common.command import Quiet
from studies.common.console import say, write, write_table

_LISTED = Annotated[list[str] | None, Parameter(consume_multiple=True, negative=())]


def campaign_command(
    *,
    out: Path = Path("runs/campaign"),
    models: _LISTED = None,
    budget_hours: float = 24.0,
    data: _LISTED = None,
    device: str | None = None,
    prompts: str | None = None,
    dry_run: Annotated[bool, Parameter(negative=())] = False,
    quiet: Quiet = False,
) -> int:
    """Measure what the three papers print, on their own models, and set it against docs/predictions.md.

    Interrupted or killed, the same command goes on with what is left. The exit code is 1 where a stage failed.

    Args:
        out: folder of the runs, records, log and page.
        models: of the papers, by name; NAME=FOLDER puts a folder in place of one. Left out = all.
        budget_hours: of all calls together; a stage that should not fit is not begun.
        data: NAME=FILE or a folder with files named after data sets, in place of the hub's; pile=FILE.txt is needed
            for lad2024.
        device: such as cuda; left out = the first accelerator, else the CPU.
        prompts: of each set, in place of the papers' number.
        dry_run: list the stages with sizes, hours and disk, and measure nothing.
        quiet: no messages; warnings and errors remain.
    """
    from studies.campaign.page import page_of, scores_of
    from studies.common.files import write_file

    stages, machine = stages_of(models or ()), Machine()
    further = [*(["--data", *data] if data else []), *(["--device", device] if device else [])]
    campaign = Campaign(out, (*further, *(["--prompts", prompts] if prompts else [])))
    if dry_run:
        _list(campaign, stages, machine, budget_hours)
        return 0
    campaign.run(stages, machine, budget_hours, lambda text: say(text, quiet))
    page = out / "campaign.md"
    write_file(page, page_of(campaign, stages, scores_of(campaign, stages)).encode("utf-8"))
    say(f"Written: {page}", quiet)
    return int(any(stage.name in campaign.failures() for stage in stages))


def _list(campaign: Campaign, stages: list[Stage], machine: Machine, budget: float) -> None:
    """Print what would be done, in order, with what it should take."""
    rows, hours, disk = [], 0.0, 0.0
    models = len({stage.model for stage in stages})
    for stage in stages:
        needed, is_done = stage.hours(machine), campaign.is_done(stage)
        hours += 0.0 if is_done else needed
        disk += 0.0 if stage.place else stage.gigabytes
        state = "done" if is_done else ("" if hours + campaign.hours <= budget else "over the budget")
        rows.append([stage.model, stage.target, f"{stage.gigabytes:.1f}", f"{needed:.2f}", f"{hours:.1f}", state])
    write_table(("model", "target", "GB", "hours", "hours until then", ""), rows, "Stages")
    write(
        f"{len(stages)} stages of {models} models: about {hours:.1f} h and {disk:.0f} GB of downloads. Hours are "
        f"arithmetic and not measured: {machine.petaflops:g} petaflops a second, {machine.gigabytes:g} GB a second of "
        f"download; models above {machine.memory:g} GB are streamed from disk, which takes longer."
    )


app = App(name="campaign")
app.default(campaign_command)
