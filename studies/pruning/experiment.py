"""Blocks chosen on some text, judged on other text, beside every cheap rule, and beside all subsets where few blocks.

For each model and share of its blocks the search is led by pairs, as in a model too deep for all subsets; of models of
at most twelve blocks all subsets are measured too, which tells what the search has missed.
Source: ShortGPT, Gromov et al. and SLEB, whose rules are the candidates.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from math import ceil, comb
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import pandas as pd

from bathyscope import Model, load
from bathyscope.extend import bundled_model
from bathyscope.extend.prompts import Prompts, tokenized
from bathyscope.extend.statistics import Sampling, compared_with_best
from bathyscope.surgery.choosing.search import Search
from bathyscope.surgery.trial.ledger import Ledger
from bathyscope.wavefront.histories import Unit, without
from studies.common.arrays import FloatArray
from studies.pruning.kept import Kept

EXHAUSTIVE: Final = "exhaustive"
BUNDLED: Final = "bundled"
SEARCH: Final = "search"
"""What the choice is called here, beside the exhaustive one."""
CHOICE: Final = "choice"
RANDOM: Final = "random"
RIVALS: Final = ("block influence", "angular distance")
"""Candidates of a search: its choice, random subsets, and rules that measure no subset."""
PERMUTATIONS: Final = "task:permutations:{count}?factors=1-8&beyond=9-9&elements=generators&answer=image"
Subset = frozenset[Unit]
Role = Literal["calibration", "test"]


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


@dataclass(frozen=True)
class Judged:
    """Candidates of one model and share, on the test prompts.

    Args:
        table: a row for every candidate.
        cost: [candidates, prompts].
        about: of model and prompts, the same for all candidates.
        resamples: bootstrap resamples of the prompts.
    """

    table: pd.DataFrame
    cost: FloatArray
    about: Mapping[str, int]
    resamples: int


def pruning(options: Pruning, out: Path, progress: bool = True) -> pd.DataFrame:
    """Everything, resumed where it was; ``results.csv`` grows with each model and share.

    All models are searched first, and then all subsets measured where that is asked for, since that takes longest.

    Returns:
        A row for every model, share and candidate.
    """
    judged: dict[tuple[str, int], Judged] = {}
    studies = {name: _Study(name, options, out, progress) for name in options.models}
    for exhaustive in (False, True):
        for name, study in studies.items():
            if exhaustive and study.model.n_blocks > options.all_subsets:
                continue
            for share in options.shares:
                judged[name, share] = study.judge(share, exhaustive)
                table(judged).to_csv(out / "results.csv", index=False)
    return table(judged)


class _Study:
    """One model."""

    def __init__(self, name: str, options: Pruning, out: Path, progress: bool) -> None:
        self._options = options
        self.model = load(str(bundled_model() if name == BUNDLED else Path(options.checkpoints) / name))
        over: Literal["answer", "tokens"] = "answer" if name.startswith("permutations") else "tokens"
        self._samples = _samples(self.model, name, options)
        identity = {
            "weight_hash": self.model.weight_hash,
            "settings": _settings(self.model),
            "calibration": self._samples["calibration"].hash,
            "test": self._samples["test"].hash,
        }
        kept: Any = Kept(out / name, identity)
        self._ledger = Ledger(self.model, self._samples, kept, over, progress)
        n_blocks = self.model.n_blocks
        self._search = Search(
            self._ledger,
            [Unit(block) for block in range(n_blocks)],
            budget=comb(n_blocks, 3) + n_blocks * (n_blocks - 1) // 2 + n_blocks,
            measured=32,
            random=options.random,
            seed=0,
            exhaustive=False,
        )

    def _cheapest(self, size: int) -> Subset:
        """The cheapest of all subsets of a size on the calibration prompts."""
        every: list[Subset] = [frozenset(map(Unit, own)) for own in combinations(range(self.model.n_blocks), size)]
        return every[int(np.argmin(self._search.costs(every, f"measuring {len(every)} subsets")))]

    def judge(self, share: int, exhaustive: bool) -> Judged:
        """Candidates at one share, on the test prompts."""
        n_blocks = self.model.n_blocks
        size = min(max(ceil(n_blocks * share / 100 - 0.5), 1), n_blocks - 1)
        found = self._search.find(size).subsets
        subsets = {SEARCH if name == CHOICE else name: chosen for name, chosen in found.items()}
        if exhaustive:
            subsets[EXHAUSTIVE] = (self._cheapest(size),)
        every = list(dict.fromkeys(chain.from_iterable(subsets.values())))
        histories = [without(n_blocks, subset) for subset in every]
        values = self._ledger.values("test", histories, ("loss", "kl", "agreement"), title="testing")
        rows = [[every.index(subset) for subset in own] for own in subsets.values()]
        cost = np.stack([values["loss"][own].mean(0) for own in rows])
        compared = compared_with_best(cost, Sampling(self._options.resamples))
        # a candidate of several subsets is their mean, which no single forward shows
        single = np.array([len(own) == 1 for own in rows])
        first = [own[0] for own in rows]
        columns = {
            "candidate": list(subsets),
            "subset": [_text(name, own) for name, own in subsets.items()],
            "calibration_cost": [float(self._search.costs(own, "measuring").mean()) for own in subsets.values()],
            "test_cost": compared.mean,
            "test_cost_low": compared.low,
            "test_cost_high": compared.high,
            "p_value": compared.p_value,
            "indistinguishable": compared.indistinguishable,
            "p_against_choice": compared.p_against_first,
            "test_kl": np.where(single, values["kl"][first].mean(1), np.nan),
            "test_agreement": np.where(single, values["agreement"][first].mean(1), np.nan),
        }
        tokens = {f"{role}_tokens": sum(prompts.lengths) for role, prompts in self._samples.items()}
        about = {"blocks": n_blocks, "dropped": size, **tokens, "test_prompts": len(self._samples["test"])}
        return Judged(pd.DataFrame(columns), cost, about, self._options.resamples)


def _settings(model: Model) -> str:
    """Hash of what a model's configuration says beyond the defaults of its class."""
    said = {name: value for name, value in model.hf.config.to_diff_dict().items() if name != "transformers_version"}
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()


def _text(name: str, subsets: Sequence[Subset]) -> str:
    return f"{len(subsets)} subsets" if name == RANDOM else ",".join(map(str, sorted(subsets[0])))


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


def table(judged: Mapping[tuple[str, int], Judged]) -> pd.DataFrame:
    """A row for every model, share and candidate.

    ``p_search`` is the paired p-value of the difference from what the search chose alone, ``regret`` how much more the
    search's choice costs on the calibration prompts than the cheapest of all subsets.
    """
    pieces = []
    for (name, share), one in judged.items():
        own, about = one.table.copy(), one.about
        place = {candidate: row for row, candidate in enumerate(own["candidate"])}
        own.insert(0, "model", name)
        own.insert(1, "blocks", about["blocks"])
        own.insert(2, "share", share)
        own.insert(3, "dropped", about["dropped"])
        own["p_search"] = [_pairwise(one.cost[place[SEARCH]], cost, one.resamples) for cost in one.cost]
        own["regret"] = np.nan
        if EXHAUSTIVE in place:
            chosen = own["calibration_cost"].to_numpy()
            own.loc[place[SEARCH], "regret"] = chosen[place[SEARCH]] - chosen[place[EXHAUSTIVE]]
        for column in ("calibration_tokens", "test_tokens", "test_prompts"):
            own[column] = about[column]
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
        rivals = [rival for rival in RIVALS if rival in rows.index]
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
