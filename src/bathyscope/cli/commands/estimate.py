"""``bathyscope estimate``: what a survey will cost, before anything is downloaded or computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, Literal

from cyclopts import App

import bathyscope
from bathyscope.cli.arguments import as_app
from bathyscope.cli.commands.survey import CALL, IN_A_SHELL, REPEATED, measure_flags, with_sources
from bathyscope.cli.console import quiet_libraries, write, write_json, write_table
from bathyscope.cli.flags import nested
from bathyscope.core.text import duration, in_bytes, scaled
from bathyscope.measures.declaration import Declaration

if TYPE_CHECKING:
    from bathyscope.surveying.cost import Estimate

_TEXTS = {one.name: one.metadata["help"] for one in fields(CALL)} | IN_A_SHELL
_EXAMPLES = """\
Examples:
  bathyscope estimate Qwen/Qwen2.5-1.5B --prompts gsm8k:10
  bathyscope estimate Qwen/Qwen2.5-1.5B --tokens 200 --count 10 --measures all
  bathyscope estimate ./checkpoint --tokens 512 --dtype float32 --format json

Measures this machine for a few seconds; nothing else is computed."""


def estimate_command(model: str, /, *, format: Literal["table", "json"] = "table", **given: Any) -> int:
    """Estimate a survey.

    Args:
        model: name on the hub, or a local folder with a config.json.
        format: of the output.
    """
    with quiet_libraries():
        found = bathyscope.estimate(model, **with_sources(nested(given)))
    if format == "json":
        derived = ("flops", "peak_bytes", "fit", "readings")
        write_json({**asdict(found), **{name: getattr(found, name) for name in derived}})
    else:
        _print(found)
    return 0


def _print(found: Estimate) -> None:
    write(
        f"{found.model}: family {found.family}, {found.blocks} blocks × width {found.width}, vocabulary "
        f"{found.vocabulary}, {scaled(found.parameters)} parameters in {found.dtype} "
        f"({scaled(max(found.parameters_per_block))} in the largest block)"
    )
    write(f"{found.prompts} prompts, {found.tokens} tokens, at most {found.longest} in one")
    rows = [[name, f"{rows:.0f}", f"{found.readouts[name]:.0f}"] for name, rows in found.rows.items()]
    write_table(("Measure", "Full rows per prompt", "Readouts per token"), rows)
    rates = found.rates
    blocks, readout = scaled(found.block_flops), scaled(found.readout_flops)
    write(f"Work:   {scaled(found.flops)}FLOP (blocks {blocks}FLOP, readout {readout}FLOP)")
    write(
        f"Memory: about {in_bytes(found.peak_bytes)} at the peak (weights {in_bytes(found.weight_bytes)}, "
        f"row states {in_bytes(found.state_bytes)}, keys and values {in_bytes(found.key_value_bytes)}, "
        f"workspace {in_bytes(found.workspace_bytes)})"
    )
    write(f"Device: {_placed(found)}")
    write(
        f"Time:   about {duration(found.seconds)} on this machine, most of it for {found.dominates}; at least "
        f"{duration(found.floor_seconds)} at the {scaled(rates.matrix)}FLOP/s of a large matrix product in "
        f"{found.dtype}. Measured just now on {rates.device}: blocks {scaled(rates.blocks or rates.matrix)}FLOP/s, "
        f"{scaled(rates.compared)}logits read and compared a second"
    )


def _placed(found: Estimate) -> str:
    """Whether it fits, in a sentence."""
    free = "" if found.free_bytes is None else f" into the {in_bytes(found.free_bytes)} that are free"
    where = f"on {found.rates.device}"
    if found.fit == "fits":
        return f"fits{free} {where}; the weights are read once"
    beside = in_bytes(found.peak_bytes - found.weight_bytes + found.streamed_weight_bytes)
    if found.fit == "streams":
        return (
            f"does not fit{free} {where} as a whole, and streams (--placement stream): {beside} at the peak, the "
            f"weights are read {found.readings} times"
        )
    return (
        f"does not fit{free} {where}, not even streamed ({beside}); shorter prompts or fewer measures take less, and "
        "so does another dtype"
    )


def application(others: Mapping[str, Declaration] | None = None) -> App:
    """The command, with flags for the options of measures from outside the package."""
    beside = measure_flags((), others)
    call = "bathyscope:estimate"
    return as_app(
        estimate_command, _EXAMPLES, call, leave_out=("rates",), texts=_TEXTS, repeated=REPEATED, beside=beside
    )


app = application()
