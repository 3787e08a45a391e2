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
_SHUFFLED_BLOCKS: Final = "shuffled_blocks"
CONTROL: Final = "control"
"""Note of a run's record: the kind and the seed of the control that it is, or None for a run that is none."""
WEIGHTS: Final = "weights"
"""Entry of that note: the hash of the weights that run in another order; earlier versions do not tell it."""
_BY_MODEL: Final = {
    _UNTRAINED: re.compile(r", untrained, seed (\d+)( \(.*)?$"),
    _SHUFFLED_BLOCKS: re.compile(r", blocks shuffled, seed (\d+)( \(.*)?$"),
}
_BY_DATASET: Final = {"shuffled_text": re.compile(r", shuffled \(seed (\d+)\)$")}
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
    """Return the controls whose depths can be subtracted from the run's by prompt; each draw counts once.

    A copy of the run itself is no untrained model.
    """
    paired: list[str] = []
    for label, control in run.controls.items():
        if not is_paired(run, label):
            continue
        kind = label.rpartition("-")[0]
        others = [run.controls[name] for name in paired if name.rpartition("-")[0] == kind]
        if kind == _UNTRAINED:
            others = [run, *others]
        if not any(_is_the_same_draw(kind, control, other) for other in others):
            paired.append(label)
    return paired


def _is_the_same_draw(kind: str, control: Controlled, other: Controlled) -> bool:
    """Return whether two controls are one draw, copied: the same untrained weights, or the same seed of an order.

    Weights that were measured twice, as with other kernels of attention, are one draw, though results differ by
    rounding. Two seeds may draw the same order, and are two draws.
    """
    if control.identity.weight_hash != other.identity.weight_hash:
        return False
    if kind == _UNTRAINED and control.identity.weight_hash:
        return True
    seeds = {_stated(each)[1] for each in (control, other)}
    return control["lens"].equals(other["lens"]) if None in seeds else len(seeds) == 1


def is_paired(run: Controlled, label: str) -> bool:
    """Return whether a control has depths, is of a model like the run's, and read its prompts by its options."""
    control = run.controls[label]
    return (
        run.judged
        and control.judged
        and not contradiction(run, label)
        and is_of_its_model(run, label)
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
    actual, _ = _stated(control)
    if actual:
        return "" if actual == kind else f"a control {actual}"
    if CONTROL in _notes(control):
        return "no control"
    return (
        "of the run's own weights"
        if kind == _UNTRAINED and control.identity.weight_hash == run.identity.weight_hash
        else ""
    )


def _stated(control: Controlled) -> tuple[str, int | None]:
    """Return the kind and the seed that a control says it is of, in its record or by its names; empty where neither."""
    note = _notes(control).get(CONTROL) or {}
    if note.get("kind"):
        return str(note["kind"]), note.get("seed")
    for text, patterns in ((control.identity.model, _BY_MODEL), (control.identity.dataset, _BY_DATASET)):
        for kind, pattern in patterns.items():
            if match := pattern.search(text):
                return kind, int(match[1])
    return "", None


def _notes(control: Controlled) -> Mapping[str, Any]:
    return control.manifest.get("record", {}).get("notes") or {}


def is_of_its_model(run: Controlled, label: str) -> bool:
    """Return whether nothing that both tell of their models differs but what the control is to differ in.

    An untrained model has other weights, and blocks in another order are the run's own weights; adapters are part of a
    configuration, and an untrained model is without them.
    """
    measured, control = run.identity, run.controls[label].identity
    if run.n_blocks != run.controls[label].n_blocks or measured.dtype != control.dtype:
        return False
    kind = label.rpartition("-")[0]
    configurations = {measured.config_hash, control.config_hash}
    if kind == _UNTRAINED:
        return measured.adapters != control.adapters or len(configurations - {None}) < 2
    if kind == _SHUFFLED_BLOCKS:
        # an order of blocks is part of a configuration, and of the hash of weights
        note = _notes(run.controls[label]).get(CONTROL) or {}
        return len({measured.weight_hash, note.get(WEIGHTS)} - {None, ""}) < 2
    return len(configurations - {None}) < 2 and len({measured.weight_hash, control.weight_hash} - {""}) < 2


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
