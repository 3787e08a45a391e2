"""``bathyscope check``: is this model's anatomy known, and what did the checks at load measure?"""

from __future__ import annotations

import math
from typing import Any, Literal

from cyclopts import App
from rich.box import SIMPLE_HEAD
from rich.table import Table

from bathyscope.cli.console import quiet_libraries, say, write, write_json, write_table
from bathyscope.cli.flags import command, flags, options_of
from bathyscope.errors import ModelError
from bathyscope.model import Model, load

_LOADING = options_of(load, leave_out=("model", "tokenizer", "family"))
_EXAMPLES = """\
Examples:
  bathyscope check Qwen/Qwen2.5-1.5B
  bathyscope check ./checkpoint --dtype float32
  bathyscope check ./checkpoint --format json | jq .tails

Exit code 0: accepted; 4: refused, with the reason and the measured gap."""


def check_command(
    model: str,
    /,
    *,
    format: Literal["table", "json"] = "table",
    **given: Any,
) -> int:
    """Check a model.

    Args:
        model: name on the hub, or a local folder.
        format: of the output.
    """
    say(f"Loading {model}.")
    try:
        with quiet_libraries():
            loaded = load(model, **given)
    except ModelError as error:
        if format == "json":
            write_json({"model": model, "accepted": False, "reason": str(error)})
        raise
    if format == "json":
        write_json(findings(loaded))
    else:
        _print(loaded)
    return 0


def findings(model: Model) -> dict[str, Any]:
    """Everything the checks measured; gaps are relative to the largest magnitude of what is compared."""
    anatomy, checks = model.anatomy, model.checks
    return {
        "model": model.name,
        "accepted": True,
        "family": anatomy.family.name,
        "class": type(model.hf).__name__,
        "blocks": model.n_blocks,
        "width": anatomy.width,
        "vocabulary": anatomy.vocabulary,
        "context": model.max_tokens,
        "dtype": str(model.dtype).removeprefix("torch."),
        "parallel": anatomy.parallel,
        "tolerance": checks.tolerance,
        "no_op": checks.no_op,
        "readout": checks.readout,
        "contributions": checks.contributions,
        "parts": checks.parts,
        "tail": checks.tail,
        "tails": checks.tails,
        "tail_reason": checks.tail_reason,
    }


def _print(model: Model) -> None:
    found = findings(model)
    write(
        f"{found['model']}: family {found['family']} ({found['class']}), {found['blocks']} blocks × width "
        f"{found['width']}, vocabulary {found['vocabulary']}, {found['dtype']}, "
        f"{'parallel' if found['parallel'] else 'sequential'} attention and MLP"
    )
    write("Gaps are relative to the largest value of what is compared; 0 = bit-equal.")
    write_table(_identities(found))
    write("Contribution identity, block by block:")
    write_table(_per_block(found))
    parts = "yes" if found["parts"] else "no: only whole blocks can be measured"
    tails = "yes" if found["tails"] else f"no: full rows are computed ({found['tail_reason']})"
    write(f"Attention and MLP contributions: {parts}")
    write(f"Tail rows on shared keys and values: {tails}")


def _identities(found: dict[str, Any]) -> Table:
    table = Table(box=SIMPLE_HEAD)
    for heading, justify in (("Check", "left"), ("Gap", "right"), ("Allowed", "right"), ("Holds", "left")):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    gaps = {
        "no-op parity: replayed blocks against the plain forward": [found["no_op"]],
        "contribution identity: attention + MLP against h_{l+1} − h_l": found["contributions"],
        "readout identity: final norm and unembedding against the logits": [found["readout"]],
        "tail equivalence: a tail on lent keys and values against the full row": list(found["tail"].values()),
    }
    for name, values in gaps.items():
        holds = bool(values) and all(gap <= found["tolerance"] for gap in values)
        table.add_row(name, _gap(values), f"{found['tolerance']:.0e}", "yes" if holds else "no")
    return table


def _per_block(found: dict[str, Any]) -> Table:
    table = Table(box=SIMPLE_HEAD)
    table.add_column("Block", justify="right")
    table.add_column("Gap", justify="right")
    table.add_column("Holds")
    for block, gap in enumerate(found["contributions"]):
        table.add_row(str(block), _gap([gap]), "yes" if gap <= found["tolerance"] else "no")
    return table


def _gap(values: list[float] | tuple[float, ...]) -> str:
    """The largest gap, or that there is none to measure."""
    if not values or any(math.isnan(value) for value in values):
        return "not measurable"
    return f"{max(values):.1e}"


app = App(name="check", help_epilogue=_EXAMPLES)
app.default(command(check_command, flags(_LOADING)))
