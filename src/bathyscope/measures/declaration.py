"""What a measure says of itself without being imported: name, options, what it needs, and its table of variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from bathyscope.labels import Table, labelled
from bathyscope.options import NoOptions

if TYPE_CHECKING:
    import xarray as xr

Needs = Literal["blocks", "boundaries", "last boundary", "all boundaries"]
"""What a measure must have: blocks that can be run or read; boundaries, whichever there are; the one behind the last
block among them; or all of them."""


@dataclass(frozen=True)
class Declaration:
    """A measure before its code, and with it torch, is loaded. What is not told of here, ``Measure`` tells of.

    Args:
        name: group of its dataset in a run; its code is in the module of that name.
        summary: what it measures, in one line.
        needs: what it must have of a model. Stored states have no blocks, and not always every boundary.
        table: None = unknown (a measure from outside the package).
        code: its class; None = that of its name, in the module of its name, imported when it is made.
        instance: the measure itself, where a caller passed one instead of its name.
        order: its place in runs and reports, ascending; equal ones by name. Those that are computed from the model or
            from other measures alone have 900 and more.
        synonyms: what the field calls it, for those who ask by another name.
        example: options that suit a few short prompts and a model of a few blocks, where the defaults do not.
        panels: panel of its figure → the variables that it shows; a name that ends with an underscore stands for the
            panels of all prompts, whose numbers follow. One without a figure of its own is drawn by this table.
        question: what it answers, for a table of all measures.
        rows: which rows it needs, for the same table.
    """

    name: str
    summary: str
    options_type: type = NoOptions
    table: Table | None = None
    requires: tuple[str, ...] = ()
    needs_answers: bool = False
    derived: bool = False
    code: type | None = None
    instance: Any = None
    order: int = 500
    synonyms: tuple[str, ...] = ()
    example: Mapping[str, Any] = field(default_factory=dict)
    panels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    question: str = ""
    rows: str = ""
    needs: Needs = "blocks"

    def dataset(self, values: Mapping[str, Any], coords: Mapping[str, Any], **texts: object) -> xr.Dataset:
        """Results labelled as the table says; a name that is not in it is a KeyError."""
        return labelled(self.table or {}, values, coords, **texts)
