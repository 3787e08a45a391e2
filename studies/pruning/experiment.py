"""Blocks chosen on some text, judged on other text, beside every cheap rule, and beside all subsets where few blocks.

For each model and share of its blocks the search is led by pairs, as in a model too deep for all subsets; of models of
at most twelve blocks all subsets are measured too, which tells what the search has missed.
Source: ShortGPT, Gromov et al. and SLEB, whose rules are the candidates.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import combinations
from math import comb
from pathlib import Path
from typing import Final, Self

import numpy as np
import pandas as pd

from bathyscope import Model, Plan, load
from bathyscope.extend import bundled_model
from bathyscope.extend.prompts import Prompts, tokenized
from bathyscope.extend.statistics import Sampling, compared_with_best
from bathyscope.measures.costs import Over
from bathyscope.model import config_hash
from bathyscope.runs.folder import Kind
from bathyscope.runs.pieces import Pieces
from bathyscope.surgery.choosing.judging import Proof
from bathyscope.surgery.choosing.removable import size_of, units_of
from bathyscope.surgery.choosing.search import ANGULAR, BLOCK_INFLUENCE, CHOICE, Candidates, Search, Subset
from bathyscope.surgery.plan.plan import decoded
from bathyscope.surgery.trial.ledger import Ledger, Role
from bathyscope.surgery.trial.trial import Trial
from bathyscope.wavefront.histories import Unit

KIND: Final = Kind("pruning study", "python -m studies.pruning", "study.json", schemas=(1,))
EXHAUSTIVE: Final = "exhaustive"
BUNDLED: Final = "bundled"
SEARCH: Final = "search"
"""What the plan's choice is called here, beside the exhaustive one."""
PERMUTATIONS: Final = "task:permutations:{count}?factors=1-8&beyond=9-9&elements=generators&answer=image"


@dataclass(frozen=True)
class Pruning:
    """What is pruned, and on what.

    Args:
        models: folders below ``checkpoints``, or ``bundled``; smaller ones first, since results come in this order.
        checkpoints: folder of the models.
        texts: folder of the books that were not trained on.
        shares: of the blocks, in per cent.
        tokens: of calibration, and as many of test, at least.
        window: tokens of each prompt of text.
        all_subsets: models of at most so many blocks have all subsets measured.
        random: subsets drawn at random.
        resamples: bootstrap resamples of the test prompts.
    """

    models: tuple[str, ...] = ("depth_6", "permutations_8", "permutations_12", "depth_12", "bundled", "depth_24")
    checkpoints: str = "checkpoints"
    texts: str = "../shared/data/text"
    shares: tuple[int, ...] = (12, 25, 50)
    tokens: int = 20_000
    window: int = 256
    all_subsets: int = 12
    random: int = 16
    resamples: int = 5000


def pruning(options: Pruning, out: Path, progress: bool = True) -> pd.DataFrame:
    """Everything, resumed where it was; ``results.csv`` grows with each model and share.

    All models are searched first, and then all subsets measured where that is asked for, since that takes longest.

    Returns:
        A row for every model, share and candidate.
    """
    plans: dict[tuple[str, int], Plan] = {}
    with ExitStack() as open_folders:
        studies = {name: open_folders.enter_context(_Study(name, options, out, progress)) for name in options.models}
        for exhaustive in (False, True):
            for name, study in studies.items():
                if exhaustive and study.model.n_blocks > options.all_subsets:
                    continue
                for share in options.shares:
                    plans[name, share] = study.plan(share, exhaustive)
                    table(plans).to_csv(out / "results.csv", index=False)
    return table(plans)


class _Study:
    """One model."""

    def __init__(self, name: str, options: Pruning, out: Path, progress: bool) -> None:
        self._options = options
        self.model = load(str(bundled_model() if name == BUNDLED else Path(options.checkpoints) / name))
        over: Over = "answer" if name.startswith("permutations") else "tokens"
        samples = _samples(self.model, name, options)
        identity = {
            "weight_hash": self.model.weight_hash,
            "config_hash": config_hash(self.model.hf),
            "calibration": samples["calibration"].hash,
            "test": samples["test"].hash,
        }
        self._kept = Pieces(out / name, KIND, identity)
        self._ledger = Ledger(self.model, samples, self._kept, over, progress)
        n_blocks = self.model.n_blocks
        self._search = Search(
            self._ledger,
            units_of(self.model, ("block",)),
            budget=comb(n_blocks, 3) + n_blocks * (n_blocks - 1) // 2 + n_blocks,
            measured=32,
            random=options.random,
            seed=0,
            exhaustive=False,
        )
        trial = Trial(self.model, samples["test"], Sampling(options.resamples), samples["calibration"])
        self._proof = Proof(trial, self._ledger, self._search)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._kept.close()

    def _cheapest(self, size: int) -> Subset:
        """The cheapest of all subsets of a size on the calibration prompts."""
        every: list[Subset] = [frozenset(map(Unit, own)) for own in combinations(range(self.model.n_blocks), size)]
        return every[int(np.argmin(self._search.costs(every, f"measuring {len(every)} subsets")))]

    def plan(self, share: int, exhaustive: bool) -> Plan:
        """Candidates at one share, on the test prompts."""
        size = size_of(f"{share}%", self.model.n_blocks, "blocks")
        found = self._search.find(size)
        subsets = {SEARCH if name == CHOICE else name: chosen for name, chosen in found.subsets.items()}
        if exhaustive:
            subsets[EXHAUSTIVE] = (self._cheapest(size),)
        attrs: dict[str, str | float] = {"max_cost": 0.0, "parts": "block", "share": float(share)}
        return decoded(self._proof.judge(Candidates(subsets, found.how, found.exhaustive, found.pool), size, attrs))


def _samples(model: Model, name: str, options: Pruning) -> dict[Role, Prompts]:
    """Prompts that choose, and others that judge."""
    if name.startswith("permutations"):
        return _problems(model, options.tokens)
    count = -(-options.tokens // options.window)
    texts: Mapping[Role, str] = {"calibration": "books_valid", "test": "books_test"}
    return {
        role: tokenized(model, f"{Path(options.texts) / file}.txt:{count}?window={options.window}")
        for role, file in texts.items()
    }


def _problems(model: Model, tokens: int) -> dict[Role, Prompts]:
    """Generated problems of two seeds; those of the second that the first has are left out, and repeated ones."""
    one = len(tokenized(model, PERMUTATIONS.format(count=1), seed=1)[0])
    known: set[tuple[int, ...]] = set()
    found: dict[Role, Prompts] = {}
    roles: tuple[Role, ...] = ("calibration", "test")
    for seed, role in enumerate(roles, start=1):
        own = tokenized(model, PERMUTATIONS.format(count=3 * (-(-tokens // one))), seed=seed)
        new = [place for place, prompt in enumerate(own) if not (prompt.ids in known or known.add(prompt.ids))]  # type: ignore[func-returns-value]
        total = np.cumsum([len(own[place]) for place in new])
        found[role] = own.some(new[: int(np.searchsorted(total, tokens)) + 1])
    return found


def table(plans: Mapping[tuple[str, int], Plan]) -> pd.DataFrame:
    """A row for every model, share and candidate.

    ``p_search`` is the paired p-value of the difference from what the search chose alone, ``regret`` how much more the
    search's choice costs on the calibration prompts than the cheapest of all subsets.
    """
    pieces = []
    for (name, share), plan in plans.items():
        own, cost = plan.table, plan.data["cost"].values
        place = {candidate: row for row, candidate in enumerate(own["candidate"])}
        attrs = plan.data.attrs
        own.insert(0, "model", name)
        own.insert(1, "blocks", attrs["n_blocks"])
        own.insert(2, "share", share)
        own.insert(3, "dropped", attrs["size"])
        own["p_search"] = [
            _pairwise(cost[place[SEARCH]], cost[row], int(attrs["resamples"])) for row in range(len(own))
        ]
        own["regret"] = np.nan
        if EXHAUSTIVE in place:
            chosen = own["calibration_cost"].to_numpy()
            own.loc[place[SEARCH], "regret"] = chosen[place[SEARCH]] - chosen[place[EXHAUSTIVE]]
        own["calibration_tokens"], own["test_tokens"] = attrs["calibration_tokens"], attrs["test_tokens"]
        own["test_prompts"] = attrs["test_prompts"]
        pieces.append(own)
    return pd.concat(pieces, ignore_index=True)


def _pairwise(one: np.ndarray, other: np.ndarray, resamples: int) -> float:
    return float(compared_with_best(np.stack([one, other]), Sampling(resamples)).p_value.min())


def answers(found: pd.DataFrame) -> dict[str, str]:
    """What the study asked, with what was found."""
    by = found.groupby(["model", "share"], sort=False)
    searched = found[found["candidate"] == SEARCH]
    worse = searched[~searched["indistinguishable"]]
    better = []
    half = found[found["share"] == 50]
    for name, own in half.groupby("model", sort=False):
        rows = own.set_index("candidate")
        rivals = [rival for rival in (BLOCK_INFLUENCE, ANGULAR) if rival in rows.index]
        if all(
            rows["test_cost"][rival] > rows["test_cost"][SEARCH] and rows["p_search"][rival] < 0.05 for rival in rivals
        ):
            better.append(str(name))
    regret = found["regret"].dropna()
    return {
        "significantly worse than the best candidate": (
            "never" if worse.empty else ", ".join(f"{m} at {s} %" for m, s in zip(worse["model"], worse["share"]))
        )
        + f" of {len(by)}",
        "significantly better than block influence and angular distance at 50 %": ", ".join(better) or "nowhere",
        "largest regret on calibration": f"{regret.max():.4f} nats of {len(regret)}" if len(regret) else "not measured",
    }
