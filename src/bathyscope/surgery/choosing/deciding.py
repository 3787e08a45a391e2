"""From what is asked of ``prune`` to a plan: a search on the calibration prompts, and a proof on the test prompts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bathyscope.measures.costs import Over
from bathyscope.measures.token_samples import TokenSampler
from bathyscope.model import Model
from bathyscope.model.place import here
from bathyscope.model.writing import ends_of
from bathyscope.runs.pieces import Pieces
from bathyscope.schedule import Schedule
from bathyscope.surgery.checkpoint.outline import sizes_after
from bathyscope.surgery.choosing.judging import Proof
from bathyscope.surgery.choosing.search import Search, Subset
from bathyscope.surgery.plan.bound import CostBound
from bathyscope.surgery.trial.ends import ended_answers
from bathyscope.surgery.trial.ledger import Ledger
from bathyscope.surgery.trial.trial import Trial
from bathyscope.wavefront.histories import Unit


@dataclass(frozen=True)
class Request:
    """What may be left out, how much of it, and how far the search goes.

    Args:
        units: what may be left out.
        kinds: of which parts these are.
        size: how many units go; None = as many as cost less than ``max_cost``.
        max_cost: what the choice may cost; None = anything.
        over: which tokens of a prompt a cost is over.
        read_tokens: tokens of each prompt that are read out; None = all.
        budget, measured, random: of the search.
    """

    units: tuple[Unit, ...]
    kinds: tuple[str, ...]
    size: int | None
    max_cost: CostBound | None
    over: Over
    read_tokens: int | None
    budget: int
    measured: int
    random: int

    @property
    def settings(self) -> dict[str, Any]:
        """What could change a number, as the folder's manifest holds it."""
        return {
            "drop": self.size,
            "max_cost": None if self.max_cost is None else self.max_cost.setting,
            "parts": list(self.kinds),
            "over": self.over,
            "budget": self.budget,
            "measured": self.measured,
            "random": self.random,
            **({} if self.read_tokens is None else {"read_tokens": self.read_tokens}),
        }


def choose(trial: Trial, request: Request, sources: Mapping[str, str], pieces: Pieces | None, progress: bool) -> bytes:
    """Search on the calibration prompts, judge on the test prompts, and return the plan as the bytes of its file.

    Args:
        sources: attributes that say where the prompts came from.
    """
    samplers = None
    if request.read_tokens is not None:
        samplers = {
            role: TokenSampler(request.read_tokens, prompts, trial.sampling.seed, f"prune ({role})")
            for role, prompts in trial.samples.items()
        }
    ledger = Ledger(trial.model, trial.samples, pieces, request.over, progress, samplers)
    search = Search(
        ledger,
        request.units,
        budget=request.budget,
        measured=request.measured,
        random=request.random,
        seed=trial.sampling.seed,
        **_domains_of(trial),
    )
    ended = {}
    if request.over == "answer":
        ends = ends_of(trial.model)
        ended = {role: ended_answers(prompts, ends) for role, prompts in trial.samples.items()}
    proof = Proof(trial, ledger, search, ended)
    if request.size is None:
        assert request.max_cost is not None
        fitting = proof.largest(request.max_cost)
    else:
        fitting = request.size
    # where not even one fits, the numbers of the cheapest one say why
    tried = max(fitting, 1)
    candidates = search.find(tried)
    place = here(trial.model.name, trial.model.revision)
    attrs: dict[str, str | int | float] = {
        "parts": ",".join(request.kinds),
        "over": request.over,
        "fits": int(fitting > 0),
        **({} if trial.domains is None else {"joint": trial.domains.joint}),
        **sources,
        **({} if place is None else {"folder": str(place.resolve())}),
        **_measure_sizes(trial.model, candidates.choice),
    }
    return proof.judge(candidates, tried, attrs, request.max_cost)


def _domains_of(trial: Trial) -> dict[str, Any]:
    """Return the search's arguments for domains; none where the calibration prompts have none."""
    if trial.domains is None or trial.calibration is None:
        return {}
    return {"domains": trial.domains.names, "strata": trial.domains.strata(trial.calibration)}


def _measure_sizes(model: Model, choice: Subset) -> dict[str, int]:
    """Return parameters and bytes of the model, with and without the blocks of a choice; zeroed parts stay.

    Tensors outside of blocks may have entries for each of them (embeddings by block), and have fewer then too.
    """
    dropped_blocks = {unit.block for unit in choice if unit.part == "block"}
    remaining = tuple(block for block in range(model.n_blocks) if block not in dropped_blocks)
    sizes = sizes_after(model.hf, Schedule(remaining, model.n_blocks)) if dropped_blocks else {}
    # by identity, since blocks may share weights, which go only with the last block that has them
    ids_by_block = [{id(value) for value in block.parameters()} for block in model.anatomy.blocks]
    remaining_ids = set().union(*(ids_by_block[block] for block in remaining))
    dropped_ids = set().union(*ids_by_block) - remaining_ids
    whole = dict(model.hf.named_parameters())  # names a tied one once
    after = {
        name: value.numel() if id(value) in remaining_ids else sizes.get(name, value.numel())
        for name, value in whole.items()
        if id(value) not in dropped_ids
    }
    return {
        "parameters": sum(value.numel() for value in whole.values()),
        "parameters_after": sum(after.values()),
        "bytes": sum(value.numel() * value.element_size() for value in whole.values()),
        "bytes_after": sum(size * whole[name].element_size() for name, size in after.items()),
    }
