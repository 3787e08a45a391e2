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
from bathyscope.measures.declaration import Declaration

if TYPE_CHECKING:
    from bathyscope.cost import Estimate

_TEXTS = {one.name: one.metadata["help"] for one in fields(CALL)} | IN_A_SHELL
_EXAMPLES = """\
Examples:
  bathyscope estimate Qwen/Qwen2.5-1.5B --prompts gsm8k:10
  bathyscope estimate Qwen/Qwen2.5-1.5B --tokens 200 --count 10 --measures all
  bathyscope estimate ./checkpoint --tokens 512 --dtype float32 --format json

Measures this machine for well under two seconds; nothing else is computed."""


def estimate_command(model: str, /, *, format: Literal["table", "json"] = "table", **given: Any) -> int:
    """Estimate a survey.

    Args:
        model: name on the hub, or a local folder with a config.json.
        format: of the output.
    """
    with quiet_libraries():
        found = bathyscope.estimate(model, **with_sources(nested(given)))
    if format == "json":
        write_json(
            {
                **asdict(found),
                "flops": found.flops,
                "peak_bytes": found.peak_bytes,
                "fit": found.fit,
                "readings": found.readings,
            }
        )
    else:
        _print(found)
    return 0


def _print(found: Estimate) -> None:
    write(
        f"{found.model}: family {found.family}, {found.blocks} blocks × width {found.width}, vocabulary "
        f"{found.vocabulary}, {_scaled(found.parameters)} parameters in {found.dtype} "
        f"({_scaled(max(found.parameters_per_block))} in the largest block)"
    )
    write(f"{found.prompts} prompts, {found.tokens} tokens, at most {found.longest} in one")
    rows = [[name, f"{rows:.0f}", f"{found.readouts[name]:.0f}"] for name, rows in found.rows.items()]
    write_table(("Measure", "Full rows per prompt", "Readouts per token"), rows)
    rates = found.rates
    blocks, readout = _scaled(found.block_flops), _scaled(found.readout_flops)
    write(f"Work:   {_scaled(found.flops)}FLOP (blocks {blocks}FLOP, readout {readout}FLOP)")
    write(
        f"Memory: about {_bytes(found.peak_bytes)} at the peak (weights {_bytes(found.weight_bytes)}, "
        f"row states {_bytes(found.state_bytes)}, keys and values {_bytes(found.key_value_bytes)}, "
        f"workspace {_bytes(found.workspace_bytes)})"
    )
    write(f"Device: {_placed(found)}")
    write(
        f"Time:   about {_duration(found.seconds)} on this machine; the floor is "
        f"{_duration(found.floor_seconds)}, the work at the {_scaled(rates.matrix)}FLOP/s of a matrix "
        f"product in {found.dtype}, measured just now for {rates.seconds} s on {rates.device}; most of it goes to "
        f"{found.dominates}"
    )


def _placed(found: Estimate) -> str:
    """Whether it fits, in a sentence."""
    free = "" if found.free_bytes is None else f" into the {_bytes(found.free_bytes)} that are free"
    where = f"on {found.rates.device}"
    if found.fit == "fits":
        return f"fits{free} {where}; the weights are read once"
    beside = _bytes(found.peak_bytes - found.weight_bytes + found.streamed_weight_bytes)
    if found.fit == "streams":
        return (
            f"does not fit{free} {where} as a whole, and streams (--placement stream): {beside} at the peak, the "
            f"weights are read {found.readings} times"
        )
    return (
        f"does not fit{free} {where}, not even streamed ({beside}); shorter prompts or fewer measures take less, and "
        "so does another dtype"
    )


def _scaled(value: float) -> str:
    """Three digits and a prefix, ready for a unit: ``1.54 G``."""
    for size, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g} {prefix}"
    return f"{value:.3g} "


def _bytes(value: int) -> str:
    return f"{value / 2**30:.1f} GiB" if value >= 2**30 else f"{value / 2**20:.0f} MiB"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def application(others: Mapping[str, Declaration] | None = None) -> App:
    """The command, with flags for the options of measures from outside the package."""
    beside = measure_flags((), others)
    call = "bathyscope:estimate"
    return as_app(
        estimate_command, _EXAMPLES, call, leave_out=("rates",), texts=_TEXTS, repeated=REPEATED, beside=beside
    )


app = application()
