"""Which controls of a run are compared with it by prompt: those of its model, on its prompts or on their tokens."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from bathyscope.errors import StoreError

if TYPE_CHECKING:
    import xarray as xr

    from bathyscope.prompts.prompts import Prompts
    from bathyscope.runs.manifest import Identity

_UNTRAINED = "untrained"
CONTROL: Final = "control"
"""Note of a run's record: the kind and the seed of the control that it is, or None for a run that is none."""
_BY_MODEL: Final = {
    _UNTRAINED: re.compile(r", untrained, seed \d+( \(.*)?$"),
    "shuffled_blocks": re.compile(r", blocks shuffled, seed \d+( \(.*)?$"),
}
_BY_DATASET: Final = {"shuffled_text": re.compile(r", shuffled \(seed \d+\)$")}
"""What controls call their model and their prompts; those of earlier versions say no more of what they are."""


class Controlled(Protocol):
    """What is asked of a run here."""

    @property
    def controls(self) -> Mapping[str, Controlled]:
        """Its controls, by name."""

    @property
    def identity(self) -> Identity:
        """What was measured, and how."""

    @property
    def manifest(self) -> dict[str, Any]:
        """Identity and record, as they are stored."""

    @property
    def prompts(self) -> Prompts:
        """What was read."""

    @property
    def n_blocks(self) -> int:
        """L of its model."""

    @property
    def judged(self) -> bool:
        """Whether it has depths."""

    def __getitem__(self, name: str) -> xr.Dataset:
        """The results of a measure."""


def paired_controls(run: Controlled) -> list[str]:
    """Return the controls whose depths can be subtracted from the run's by prompt; an untrained model counts once.

    A copy of the run itself is no untrained model.
    """
    paired: list[str] = []
    for label, control in run.controls.items():
        if not is_paired(run, label):
            continue
        # Other orders of tokens or blocks may be drawn twice; the same untrained weights are one draw, copied, and
        # those of the run itself are none.
        others = [run, *(run.controls[name] for name in paired if name.startswith(_UNTRAINED))]
        if not (label.startswith(_UNTRAINED) and any(_is_the_same(control, other) for other in others)):
            paired.append(label)
    return paired


def _is_the_same(control: Controlled, other: Controlled) -> bool:
    """Return whether two runs are of one model with the same results."""
    same_weights = control.identity.weight_hash == other.identity.weight_hash
    return same_weights and control["lens"].equals(other["lens"])


def is_paired(run: Controlled, label: str) -> bool:
    """Return whether a control has depths, is of a model like the run's, and read its prompts by its options."""
    control = run.controls[label]
    return (
        run.judged
        and control.judged
        and not contradiction(run, label)
        and is_of_its_shape(run, label)
        and not unlike_options(run, label)
        # one of both may be unfinished
        and control["lens"].sizes.get("prompt") == run["lens"].sizes.get("prompt")
        and _has_its_prompts(run, control) is True
    )


def contradiction(run: Controlled, label: str) -> str:
    """Return what a control is in truth where it is not what the name of its folder says; empty where it may be.

    It says so itself, or its weights do: an untrained model has not those of the run.
    """
    kind, control = label.rpartition("-")[0], run.controls[label]
    if kind not in (*_BY_MODEL, *_BY_DATASET):
        return ""
    notes = control.manifest.get("record", {}).get("notes") or {}
    stated = notes.get(CONTROL) or {}
    actual = str(stated.get("kind", "")) or next(
        (
            name
            for text, patterns in ((control.identity.model, _BY_MODEL), (control.identity.dataset, _BY_DATASET))
            for name, pattern in patterns.items()
            if pattern.search(text)
        ),
        "",
    )
    if actual:
        return "" if actual == kind else f"a control {actual}"
    if CONTROL in notes:
        return "no control"
    return (
        "of the run's own weights"
        if kind == _UNTRAINED and control.identity.weight_hash == run.identity.weight_hash
        else ""
    )


def is_of_its_shape(run: Controlled, label: str) -> bool:
    """Return whether nothing that both tell of their models differs but weights and the order of blocks."""
    measured, control = run.identity, run.controls[label].identity
    hashes = {measured.config_hash, control.config_hash}
    # An order of blocks is part of a configuration, and so are adapters, which an untrained control is without.
    if not label.startswith(_UNTRAINED) or measured.adapters != control.adapters:
        hashes = set()
    return run.n_blocks == run.controls[label].n_blocks and measured.dtype == control.dtype and len(hashes - {None}) < 2


def unlike_options(run: Controlled, label: str) -> list[str]:
    """Return the options by which a control was measured otherwise, with both values; its depths are other quantities.

    Options that one of both does not know, as of another version, are left aside.
    """
    measured, control = run.identity.measures, run.controls[label].identity.measures
    return [
        f"{name}.{option} ({value} and {control[name][option]})"
        for name, options in measured.items()
        for option, value in options.items()
        if option in control.get(name, {}) and control[name][option] != value
    ]


def read_other_prompts(run: Controlled, label: str) -> bool:
    """Return whether a control read other prompts than the run; False where older runs do not tell."""
    return _has_its_prompts(run, run.controls[label]) is False


def _has_its_prompts(run: Controlled, control: Controlled) -> bool | None:
    """Return whether the prompts are the same, or the same but for the order of their tokens, as in shuffled text.

    None = unknown.
    """
    if control.identity.prompt_hash == run.identity.prompt_hash:
        return True
    try:
        prompts = [
            [(prompt.id, prompt.ids[0], sorted(prompt.ids)) for prompt in each.prompts] for each in (run, control)
        ]
    except StoreError:  # older runs do not keep their tokens
        return None
    return prompts[0] == prompts[1]
