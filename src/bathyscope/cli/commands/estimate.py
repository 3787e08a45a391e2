"""``bathyscope estimate``: what a survey will cost, before anything is downloaded or computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cyclopts import App

import bathyscope
from bathyscope.cli.arguments import PlainFormat, make_app
from bathyscope.cli.commands.survey import measure_flags, read_sources
from bathyscope.cli.console import quiet_libraries
from bathyscope.cli.flags import nest_options
from bathyscope.cli.printing import View, print_result
from bathyscope.core.tables import TextTable
from bathyscope.core.text import duration, in_bytes, scaled
from bathyscope.measures.declaration import Declaration
from bathyscope.surveying.options import EstimateOptions

if TYPE_CHECKING:
    from bathyscope.surveying.cost import CostEstimate

_EXAMPLES = """\
Examples:
  bathyscope estimate Qwen/Qwen2.5-1.5B --prompts gsm8k:10
  bathyscope estimate Qwen/Qwen2.5-1.5B --tokens 200 --count 10 --measures all
  bathyscope estimate ./checkpoint --tokens 512 --dtype float32 --format json

Measures this machine for a few seconds; nothing else is computed."""


def estimate_command(model: str, /, *, format: PlainFormat = "table", **options: Any) -> int:
    """Estimate a survey.

    Args:
        model: name on the hub, or a local folder with a config.json.
    """
    with quiet_libraries():
        estimate = bathyscope.estimate(model, **read_sources(nest_options(options)))
    print_result(estimate, format, lambda: _view(estimate))
    return 0


def _view(estimate: CostEstimate) -> View:
    rates = estimate.rates
    blocks, readout = scaled(estimate.block_flops), scaled(estimate.readout_flops)
    rows = [
        [measure, f"{full_rows:.0f}", f"{estimate.readouts[measure]:.0f}"]
        for measure, full_rows in estimate.rows.items()
    ]
    process = f", and {in_bytes(estimate.process_bytes)} for Python and the libraries" if estimate.process_bytes else ""
    return View(
        [
            f"{estimate.model}: family {estimate.family}, {estimate.blocks} blocks × width {estimate.width}, "
            f"vocabulary {estimate.vocabulary}, {scaled(estimate.parameters)} parameters in {estimate.dtype} "
            f"({scaled(max(estimate.parameters_per_block))} in the largest block)",
            f"{estimate.prompts} prompts, {estimate.tokens} tokens, at most {estimate.longest} in one",
            TextTable(("Measure", "Full rows per prompt", "Readouts per token"), rows),
            f"Work:   {scaled(estimate.flops)}FLOP (blocks {blocks}FLOP, readout {readout}FLOP)",
            f"Memory: about {in_bytes(estimate.peak_bytes)} at the peak (weights {in_bytes(estimate.weight_bytes)}, "
            f"row states {in_bytes(estimate.state_bytes)}, keys and values {in_bytes(estimate.key_value_bytes)}, "
            f"workspace {in_bytes(estimate.workspace_bytes)}){process}",
            f"Device: {_describe_room(estimate)}",
            f"Time:   about {duration(estimate.seconds)} on this machine, most of it for {estimate.dominates}; at "
            f"least {duration(estimate.floor_seconds)} at the {scaled(rates.matrix)}FLOP/s of a large matrix product "
            f"in {estimate.dtype}. Measured just now on {rates.device}: blocks "
            f"{scaled(rates.blocks or rates.matrix)}FLOP/s, {scaled(rates.compared)}logits read and compared a second",
        ]
    )


def _describe_room(estimate: CostEstimate) -> str:
    """Return in a sentence whether the model and the survey have room on the device."""
    free = "" if estimate.free_bytes is None else f" into the {in_bytes(estimate.free_bytes)} that are free"
    device = f"on {estimate.rates.device}"
    if estimate.fit == "fits":
        return f"fits{free} {device}; the weights are read once"
    # Streamed, the peak holds a window of blocks in place of all weights.
    streamed_peak = in_bytes(estimate.peak_bytes - estimate.weight_bytes + estimate.streamed_weight_bytes)
    if estimate.fit == "streams":
        return (
            f"does not fit{free} {device} as a whole, and streams (--placement stream): {streamed_peak} at the peak, "
            f"the weights are read {estimate.readings} times"
        )
    return (
        f"does not fit{free} {device}, not even streamed ({streamed_peak}); shorter prompts or fewer measures take "
        "less, and so does another dtype"
    )


def build_app(others: Mapping[str, Declaration] | None = None) -> App:
    """Return the command, with flags for the options of measures from outside the package."""
    return make_app(estimate_command, _EXAMPLES, EstimateOptions, extra_flags=measure_flags((), others))


app = build_app()
