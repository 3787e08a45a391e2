"""Readings that are sets: the blocks, or pairs of blocks, that a curve or a map of effects marks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import xarray as xr

from bathyscope import Run
from studies.planted.reading import Reading, marked, marked_pairs
from studies.planted.truth import Pairs, Truth

_REACHES = {"all": "at any token", "future": "at later tokens"}


def block_readings() -> list[Reading]:
    """Skip and direct effects, influences, output effects, drop, swap, sizes and directions of contributions."""
    return [*_effects(), *_influences(), *_outputs(), *_schedules(), *_carriers(), *_contributions()]


def _effects() -> list[Reading]:
    """Maps of which block uses which; skip effects pass through blocks between, direct ones do not."""
    found = []
    for measure, way in (("skip", "uses"), ("direct", "itself reads")):
        for reach, where in _REACHES.items():
            pairs = partial(_uses, direct=measure == "direct", across=reach == "future")
            says = f"pairs of blocks of which the later {way} what the earlier wrote, {where}"
            found.append(Reading(f"{measure}_{reach}", says, partial(_map, measure=measure, reach=reach), pairs))
    return found


def _map(run: Run, measure: str, reach: str) -> Pairs:
    effect = run[measure][f"effect_{reach}"].sel(reduction="max")
    return marked_pairs(effect.sel(part="block") if measure == "skip" else effect)


def _uses(truth: Truth, direct: bool = False, across: bool = False) -> Pairs:
    found = truth.uses_across if across else truth.uses
    return found & truth.direct_uses if direct else found


def _influences() -> list[Reading]:
    found = []
    for reach, where in _REACHES.items():
        across = reach == "future"
        given, received = partial(_skipped, name=f"given_{reach}"), partial(_received, name=f"received_{reach}")
        sources, users = partial(_sources, across=across), partial(_users, across=across)
        found.append(Reading(f"skip_given_{reach}", f"blocks whose work later blocks use, {where}", given, sources))
        found.append(Reading(f"skip_received_{reach}", f"blocks that use earlier ones, {where}", received, users))
    return found


def _outputs() -> list[Reading]:
    future = partial(_sources, across=True)
    return [
        Reading("skip_output_all", _NEEDED, partial(_skipped, name="output_all"), lambda truth: truth.needed),
        Reading(
            "skip_output_future",
            "blocks whose work at earlier tokens later predictions need",
            partial(_skipped, name="output_future"),
            future,
        ),
    ]


_NEEDED = "blocks that the prediction needs"


def _skipped(run: Run, name: str) -> frozenset[int]:
    return marked(run["skip"][name].sel(part="block", reduction="max"), "skipped")


def _received(run: Run, name: str) -> frozenset[int]:
    return marked(run["skip"][name].sel(part="block", reduction="max"), "block")


def _sources(truth: Truth, across: bool) -> frozenset[int]:
    return frozenset(s for s, _ in _uses(truth, across=across))


def _users(truth: Truth, across: bool) -> frozenset[int]:
    return frozenset(block for _, block in _uses(truth, across=across))


def _schedules() -> list[Reading]:
    return [
        Reading("drop", _NEEDED, lambda run: marked(run["drop"]["kl"], "dropped"), lambda truth: truth.needed),
        Reading(
            "swap",
            "blocks that cannot change places with the next one",
            lambda run: marked(run["swap"]["kl"], "swapped"),
            lambda truth: truth.ordered,
        ),
    ]


def _carriers() -> list[Reading]:
    """Where something else in the place of an earlier token's stream changes the prediction of the last one."""
    effects: dict[str, Callable[[Run], xr.DataArray]] = {
        "erasure": lambda run: run["erasure"]["effect"],
        "patching": lambda run: run["patching"]["kl"].sel(part="block"),
    }
    return [
        Reading(
            name,
            "boundaries at which the answer needs an earlier token's stream",
            partial(_carrying, effect=effect),
            lambda truth: frozenset(range(truth.last_gathering + 1)),
        )
        for name, effect in effects.items()
    ]


def _carrying(run: Run, effect: Callable[[Run], xr.DataArray]) -> frozenset[int]:
    predicting = int(run["erasure"]["answer_start"].min()) - 1
    return marked(effect(run).isel(token=slice(0, predicting)).max("token"), "boundary")


def _contributions() -> list[Reading]:
    sizes: dict[str, Callable[[xr.Dataset], xr.DataArray]] = {
        "contribution_norm": lambda residual: residual["norm_block"],
        "contribution_norm_rest": lambda residual: residual["norm_block_rest"],
        "relative_contribution": lambda residual: residual["ratio_block"],
        "block_influence": lambda residual: 1 - residual["cos_neighbour"],
    }
    return [
        Reading(name, _NEEDED, partial(_large, size=size), lambda truth: truth.needed) for name, size in sizes.items()
    ]


def _large(run: Run, size: Callable[[xr.Dataset], xr.DataArray]) -> frozenset[int]:
    return marked(size(run["residual"]), "block")
