"""What measures of replaced tokens say of operands, the inputs of a problem's steps; code: ``measures.operands``."""

from functools import partial
from typing import Final

from bathyscope.labels import Label, Table, interval

_label = partial(Label, source="csordas2025, residual erasure by operand", optional=True)
_slope = partial(_label, "", units="boundary/step")

OPERANDS: Final[Table] = {
    "operand_left": _label(
        "prompt operand",
        "boundary after which the token of a step's input no longer matters (label operands)",
        "boundary",
        "the first after which the effect is below a tenth of its largest; NaN = it never matters, or to the end",
    ),
    "operand_slope": _slope(
        "boundaries by which the input of a next step is left later",
        formula="least squares over steps within prompts",
        direction="0 = all inputs are left at one depth",
    ),
    **interval(
        "operand_slope",
        _slope,
        "the 95 % interval of the slope",
        formula="CR3 over prompts, two that are patched from each other as one",
    ),
}
