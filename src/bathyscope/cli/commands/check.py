"""``bathyscope check``: is this model's anatomy known, and what did the checks at load measure?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import bathyscope
from bathyscope.cli.arguments import LOADING_OVER_RANKS, ModelName, PlainFormat, make_app
from bathyscope.cli.console import quiet_libraries, say, write_json
from bathyscope.cli.printing import View, print_result
from bathyscope.core.tables import TextTable
from bathyscope.errors import ModelError

if TYPE_CHECKING:
    from bathyscope.model.checking import CheckResult

_EXAMPLES = """\
Examples:
  bathyscope check Qwen/Qwen2.5-1.5B
  bathyscope check ./checkpoint --dtype float32
  bathyscope check ./checkpoint --format json | jq .tails

Exit code 0: accepted; 4: refused, with the reason and the measured gap."""


def check_command(model: ModelName, /, *, format: PlainFormat = "table", **options: Any) -> int:
    """Check a model."""
    say(f"Loading {model}.")
    try:
        with quiet_libraries():
            checks = bathyscope.check(model, **options)
    except ModelError as error:
        # A refusal is a result too: programs that check many models read its reason.
        if format == "json":
            write_json({"model": model, "accepted": False, "reason": str(error)})
        raise
    print_result(checks, format, lambda: _view(checks))
    return 0


def _view(checks: CheckResult) -> View:
    limit = checks["tolerance"]
    gap_by_block = enumerate(checks["contributions"])
    blocks = [[block, _write_gap([gap]), _write_holds([gap], limit)] for block, gap in gap_by_block]
    parts = "yes" if checks["parts"] else "no: only whole blocks can be measured"
    tails = "yes" if checks["tails"] else f"no: full rows are computed ({checks['tail_reason']})"
    lengths = "prompts of one length only" if checks["equal_lengths"] else "prompts of different lengths, padded"
    return View(
        [
            "Gaps are relative to the largest value of what is compared; 0 = bit-equal.",
            TextTable(("Check", "Gap", "Allowed", "Holds"), _identity_rows(checks)),
            "Contribution identity, block by block:",
            TextTable(("Block", "Gap", "Holds"), blocks),
            f"Attention and MLP contributions: {parts}",
            f"A batch may hold: {lengths}",
            f"Tail rows on shared keys and values: {tails}",
        ]
    )


def _identity_rows(checks: CheckResult) -> list[list[str]]:
    gaps = {
        "no-op parity: replayed blocks against the plain forward": [checks["no_op"]],
        "contribution identity: attention + MLP against h_{l+1} − h_l": checks["contributions"],
        "readout identity: final norm and unembedding against the logits": [checks["readout"]],
        "independence: tokens against the same before other tokens": [checks["later"]],
        "independence: a prompt in a batch with others against itself alone": [checks["padding"]],
        "tail equivalence: a tail on lent keys and values against the full row": list(checks["tail"].values()),
    }
    limit = checks["tolerance"]
    return [[name, _write_gap(values), f"{limit:.0e}", _write_holds(values, limit)] for name, values in gaps.items()]


def _write_holds(gaps: Sequence[float], limit: float) -> str:
    return "yes" if gaps and all(gap <= limit for gap in gaps) else "no"


def _write_gap(values: Sequence[float]) -> str:
    """Return the largest gap, or that it cannot be measured."""
    if not values or any(math.isnan(value) for value in values):
        return "not measurable"
    return f"{max(values):.1e}"


app = make_app(check_command, _EXAMPLES, loading=LOADING_OVER_RANKS)
