"""``bathyscope check``: is this model's anatomy known, and what did the checks at load measure?"""

import math
from collections.abc import Sequence
from typing import Any, Literal

import bathyscope
from bathyscope.cli.arguments import LOADING, ModelName, as_app
from bathyscope.cli.console import quiet_libraries, say, write, write_json, write_table
from bathyscope.errors import ModelError

_EXAMPLES = """\
Examples:
  bathyscope check Qwen/Qwen2.5-1.5B
  bathyscope check ./checkpoint --dtype float32
  bathyscope check ./checkpoint --format json | jq .tails

Exit code 0: accepted; 4: refused, with the reason and the measured gap."""


def check_command(model: ModelName, /, *, format: Literal["table", "json"] = "table", **given: Any) -> int:
    """Check a model.

    Args:
        format: of the output.
    """
    say(f"Loading {model}.")
    try:
        with quiet_libraries():
            found = bathyscope.check(model, **given)
    except ModelError as error:
        if format == "json":
            write_json({"model": model, "accepted": False, "reason": str(error)})
        raise
    if format == "json":
        write_json(found)
    else:
        _print(found)
    return 0


def _print(found: dict[str, Any]) -> None:
    write(
        f"{found['model']}: family {found['family']} ({found['class']}), {found['blocks']} blocks × width "
        f"{found['width']}, vocabulary {found['vocabulary']}, {found['dtype']}"
        f"{', streamed' if found['placement'] == 'stream' else ''}, "
        f"{'parallel' if found['parallel'] else 'sequential'} attention and MLP"
    )
    write("Gaps are relative to the largest value of what is compared; 0 = bit-equal.")
    write_table(("Check", "Gap", "Allowed", "Holds"), _identities(found))
    write("Contribution identity, block by block:")
    limit = found["tolerance"]
    blocks = [[block, _gap([gap]), _holds([gap], limit)] for block, gap in enumerate(found["contributions"])]
    write_table(("Block", "Gap", "Holds"), blocks)
    parts = "yes" if found["parts"] else "no: only whole blocks can be measured"
    tails = "yes" if found["tails"] else f"no: full rows are computed ({found['tail_reason']})"
    lengths = "prompts of one length only" if found["equal_lengths"] else "prompts of different lengths, padded"
    write(f"Attention and MLP contributions: {parts}")
    write(f"A batch may hold: {lengths}")
    write(f"Tail rows on shared keys and values: {tails}")


def _identities(found: dict[str, Any]) -> list[list[str]]:
    gaps = {
        "no-op parity: replayed blocks against the plain forward": [found["no_op"]],
        "contribution identity: attention + MLP against h_{l+1} − h_l": found["contributions"],
        "readout identity: final norm and unembedding against the logits": [found["readout"]],
        "independence: tokens against the same before other tokens": [found["later"]],
        "independence: a prompt beside others against itself alone": [found["padding"]],
        "tail equivalence: a tail on lent keys and values against the full row": list(found["tail"].values()),
    }
    limit = found["tolerance"]
    return [[name, _gap(values), f"{limit:.0e}", _holds(values, limit)] for name, values in gaps.items()]


def _holds(gaps: Sequence[float], limit: float) -> str:
    return "yes" if gaps and all(gap <= limit for gap in gaps) else "no"


def _gap(values: Sequence[float]) -> str:
    """The largest gap, or that there is none to measure."""
    if not values or any(math.isnan(value) for value in values):
        return "not measurable"
    return f"{max(values):.1e}"


app = as_app(check_command, _EXAMPLES, loading=LOADING)
