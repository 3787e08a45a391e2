"""A model's weights read, found to be numbers, and its anatomy checked."""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Final

from torch import Tensor, nn

from bathyscope.errors import ModelError, is_out_of_memory, warn
from bathyscope.model.admission import (
    require_no_hooks,
)
from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.model.anatomy.checks import check
from bathyscope.model.anatomy.exchanged import require_parts_in_place
from bathyscope.model.anatomy.family import Family
from bathyscope.model.anatomy.generic import family_of
from bathyscope.model.anatomy.measured_gaps import Checks
from bathyscope.model.anatomy.mode import evaluating, require_own_order, seeded_states
from bathyscope.model.anatomy.plain import home_of
from bathyscope.model.anatomy.resolving import require_paths, require_sites, resolve
from bathyscope.model.constants.departure import unread_values
from bathyscope.model.kernels import explained
from bathyscope.model.memory import out_of_memory
from bathyscope.model.ranks import agreed
from bathyscope.model.replaced import warn_of_replaced_methods
from bathyscope.model.streaming.offloaded import store_of
from bathyscope.model.weights import WeightReading, config_hash


def anatomy_of(hf: nn.Module) -> Anatomy:
    """Return the anatomy declared for the model's type, else the one found by search (accepted if the checks hold)."""
    return resolve(hf, family_of(hf))


FROM_CHECKPOINT: Final = "its checkpoint is damaged. Download or convert it again."
FROM_MEMORY: Final = (
    "this model in memory is damaged, as by a training that diverged, an edit, or float16. Load or build it again."
)
SINCE_LOADED: Final = "its weights have changed since it was loaded, when all were finite. Load it again."
"""Causes of NaN or Inf in weights, with what helps."""


def weights_to_read(name: str, hf: nn.Module, cause: str) -> WeightReading:
    """Start the reading of a model without hooks; its weights in memory are read and finite.

    Args:
        cause: of weights that are not, and what helps.
    """
    require_own_order(hf)
    require_no_hooks(hf)
    warn_of_replaced_methods(hf)
    _warn_of_unread_values(hf)
    reading = WeightReading(hf)
    _require_finite(name, reading, cause)
    return reading


def _warn_of_unread_values(hf: nn.Module) -> None:
    unread = unread_values(hf, config_hash(hf)) if hasattr(hf, "config") else []
    if unread:
        warn(
            f"{unread[0]} cannot be read: runs, lenses and plans of this model are those of an unknown one, and none "
            "is resumed or used again. Make it a buffer or a number."
        )


def _require_finite(name: str, reading: WeightReading, cause: str) -> None:
    if reading.bad:
        raise ModelError(f"{name} holds NaN or Inf in {reading.bad}; {cause}")


def read_and_check(
    name: str, hf: nn.Module, family: Family | None, cause: str = FROM_CHECKPOINT
) -> tuple[str, Anatomy, Checks]:
    """Read and check a model in one visit of its blocks: streamed ones are hashed when the checks bring them.

    Args:
        cause: of weights that are not finite, and what helps.
    """
    reading = weights_to_read(name, hf, cause)

    def look(tensors: Mapping[str, Tensor]) -> None:
        reading.look(tensors)
        _require_finite(name, reading, cause)

    store = store_of(hf)
    with nullcontext() if store is None else store.inspected(look):
        anatomy, checks = check_anatomy(name, hf, family)
    return reading.sha256(), anatomy, checks


def check_anatomy(name: str, hf: nn.Module, family: Family | None) -> tuple[Anatomy, Checks]:
    """Resolve and check the anatomy of a model, by its family's declaration or by the one that is given."""
    try:
        with evaluating(hf):
            if family is not None:
                require_paths(hf, family)
            anatomy = anatomy_of(hf) if family is None else resolve(hf, family)
            if family is not None:
                require_sites(hf, family)
            # what its family says of a random initial state is known only now
            with seeded_states(hf):
                # one rank's rounding decides for all which rows are computed
                checks = agreed(check(anatomy))
                if family is not None:
                    require_parts_in_place(anatomy)
    # models of unknown code fail in as many ways as there is code; each means that they cannot be replayed
    except (RuntimeError, TypeError, ValueError, LookupError, AttributeError) as error:
        if isinstance(error, ModelError):
            raise explained(hf, error) from error.__cause__
        if is_out_of_memory(error):
            raise out_of_memory(f"What the checks of {name} compute", home_of(hf)) from error
        kind = f"{getattr(hf.config, 'model_type', '')} ({type(hf).__name__})"
        raise ModelError(
            f"{kind} cannot be measured: its blocks cannot be recorded and replayed "
            f"({type(error).__name__}: {' '.join(str(error).split())}). Is it a decoder-only causal language model?"
        ) from error
    return anatomy, checks
