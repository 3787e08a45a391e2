"""The labelled arrays of a plan, by candidate, prompt and domain."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import xarray as xr

from bathyscope.labels import Label, interval, labelled
from bathyscope.runs.shards import encode_results
from bathyscope.surgery.plan.combining import PROMPT_DOMAIN

GROUP: Final = "plan"
FEW_CARRY: Final = "few_carry"
"""Attribute of a plan, 1 where few prompts carry the cost of its choice."""
_SOURCE: Final = "prune"
_label = partial(Label, "candidate", source=_SOURCE)
_by_domain = partial(Label, "chosen_on domain", source=_SOURCE, optional=True)
TABLE: Final = {
    "subset": _label("what is left out"),
    "calibration_cost": _label("mean cost on the calibration prompts", "nats"),
    "test_cost": _label("mean cost on the test prompts", "nats", "mean of loss(S) − loss(full)"),
    **interval("test_cost", _label, "the interval of the test cost", "nats"),
    "p_value": _label("p of no difference from the best, corrected for all pairs"),
    "indistinguishable": _label("cannot be told from the best on the test prompts"),
    "p_against_choice": _label("p of no difference from the choice, corrected for all pairs", optional=True),
    "test_kl": _label("mean KL on the test prompts", "nats", "mean of KL(full ‖ S)"),
    "test_agreement": _label("top-1 agreement with the full model"),
    "ends_kept": _label("share of the test answers that the full model ends whose end stays top-1", optional=True),
    "subsets": _label("how many different subsets it stands for", optional=True),
    "subset_median": _label("median of the mean test costs of these subsets", "nats", optional=True),
    "subset_min": _label("the lowest of these costs", "nats", optional=True),
    "subset_max": _label("the highest of these costs", "nats", optional=True),
    "subsets_cheaper": _label("how many of these subsets cost less than the choice", optional=True),
    "cost": Label("candidate prompt", "cost on each test prompt", "nats", "loss(S) − loss(full)", _SOURCE),
    "full_loss": Label("prompt", "loss of the full model on each test prompt", "nats", source=_SOURCE, optional=True),
    PROMPT_DOMAIN: Label("prompt", "domain of each test prompt", source=_SOURCE, optional=True),
    "over_bound": _label(
        "test cost above the allowed share of the loss",
        "nats",
        "mean of loss(S) − (1 + share) · loss(full)",
        optional=True,
    ),
    "over_bound_low": _label("lower end of the interval of what is above the bound", "nats", optional=True),
    "over_bound_high": _label("upper end of the interval of what is above the bound", "nats", optional=True),
    "chosen_again": _label("share of bootstraps of the calibration prompts in which it costs least", optional=True),
    "blocks_again": Label(
        "unit", "share of bootstraps in which it is in what costs least", source=_SOURCE, optional=True
    ),
    "domain_cost": _by_domain("mean cost on the test prompts of a domain", "nats"),
    **interval("domain_cost", _by_domain, "the interval of the domain cost", "nats"),
    "transfer": _by_domain(
        "cost on a domain less that of the domain's own choice", "nats", "cost(S_i) − cost(S_j) on domain j"
    ),
    **interval("transfer", _by_domain, "the interval of the transfer, all of which hold together", "nats"),
}
NUMBERS: Final = frozenset(
    {"n_blocks", "level", "resamples", "seed", "n_units", "size", "exhaustive", "max_cost", "fits", "bytes"}
    | {"max_share", "bytes_after", "parameters", "parameters_after", "calibration_distinct", FEW_CARRY}
    | {f"{role}_{name}" for role in ("calibration", "test") for name in ("prompts", "tokens", "calls", "ended")}
)
"""Attributes that are numbers where they are given; the others are texts."""
COLUMNS: Final = tuple(name for name, label in TABLE.items() if label.always == ("candidate",))


def result(
    candidates: Sequence[str],
    values: Mapping[str, Any],
    coords: Mapping[str, Any],
    attrs: Mapping[str, str | int | float],
) -> xr.Dataset:
    """Return a plan's arrays; the first candidate is the choice."""
    return labelled(TABLE, values, {"candidate": np.array(list(candidates), dtype=object), **coords}).assign_attrs(
        attrs
    )


def encoded(data: xr.Dataset) -> bytes:
    """Return a plan as the bytes of a netCDF file."""
    return encode_results({GROUP: data})
