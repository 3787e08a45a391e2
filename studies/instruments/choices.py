"""How sure is a choice of blocks, and does it carry over? Three domains of text, three models.

Books, an encyclopaedia and plays choose blocks each for itself and together, and each judges all choices. How often the
intervals of the transfer table hold together is simulated on the costs of single prompts that were measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from bathyscope import Plan, load, prune
from bathyscope.extend.statistics import Sampling, mean_interval
from studies.common.arrays import FloatArray
from studies.common.stored import stored_smollm2
from studies.instruments.texts import token_windows

DOMAINS: Final[Mapping[str, str]] = {
    "books": "text/books_valid.txt",
    "encyclopaedia": "text/wikitext2_valid.txt",
    "plays": "text/tinyshakespeare.txt",
}
"""Domain → file below the folder of data; its first half chooses, its second half judges."""


@dataclass(frozen=True)
class ChoiceCase:
    """What one model is asked.

    Args:
        drop: blocks that go.
        calibration, test: windows of each domain.
        tokens: of each window.
        budget: calls up to which all subsets, or all pairs, are measured.
    """

    drop: int
    calibration: int
    test: int
    tokens: int
    budget: int = 20_000


CASES: Final[Mapping[str, ChoiceCase]] = {
    "depth_12": ChoiceCase(drop=2, calibration=12, test=24, tokens=48),
    "depth_24": ChoiceCase(drop=2, calibration=8, test=20, tokens=40),
    "smollm2": ChoiceCase(drop=2, calibration=6, test=12, tokens=32, budget=600),
}


def choose_by_domain(name: str, data: Path, out: Path, checkpoints: Path) -> dict[str, Any]:
    """Choose blocks of one model on all domains; what is finished under ``out`` is not done again.

    Args:
        name: of ``CASES``.
        data: folder of the texts.
    """
    case = CASES[name]
    model = load(stored_smollm2() if name == "smollm2" else checkpoints / name, device="cpu", dtype="float32")
    calibration, test = (
        {domain: token_windows(model, data / file, count, case.tokens, share) for domain, file in DOMAINS.items()}
        for count, share in ((case.calibration, (0.0, 0.5)), (case.test, (0.5, 1.0)))
    )
    plan = prune(
        model,
        calibration,
        test,
        drop=case.drop,
        budget=case.budget,
        measured=8,
        random=4,
        out=out / "runs" / f"choices-{name}",
        progress=False,
    )
    return {"model": name, "n_blocks": model.n_blocks, **summary_of(plan)}


def summary_of(plan: Plan) -> dict[str, Any]:
    """Return what a page says of a plan with domains, and how often its intervals hold together by simulation."""
    table = plan.table.set_index("candidate")
    names = plan.data["domain"].values.tolist()
    own = {name: table["subset"][f"choice from {name}"] for name in names}
    return {
        "text": plan.text,
        "how": plan.data.attrs["how"],
        "prompts": [int(plan.data.attrs[f"{role}_prompts"]) for role in ("calibration", "test")],
        "choices": {**own, "all domains": plan.left_out},
        "chosen_again": plan.chosen_again,
        "blocks_again": dict(plan.blocks_again[["unit", "chosen_again"]].itertuples(index=False)),
        "transfer": plan.transfer.to_dict("records"),
        "coverage": simulated_coverage(plan),
    }


def simulated_coverage(plan: Plan, draws: int = 300, resamples: int = 500) -> list[float]:
    """Return how often all intervals of a transfer table hold, of prompts drawn from those that were measured.

    Returns:
        The share, and the prompts of each domain in every draw.
    """
    names = tuple(plan.data["domain"].values.tolist())
    of_prompt = np.array([str(prompt).partition("/")[0] for prompt in plan.data["prompt_id"].values])
    cost_CP = plan.data["cost"].sel(candidate=[*(f"choice from {name}" for name in names), "choice"]).values
    places = [np.flatnonzero(of_prompt == name) for name in names]
    count = min(map(len, places))
    truth = np.stack([cost_CP[:, members].mean(1) for members in places], 1)
    expected = truth - truth[: len(names)].diagonal()
    rng = np.random.default_rng(0)
    holds = []
    for seed in range(draws):
        drawn = [rng.choice(members, count) for members in places]
        low, high = excess_intervals([cost_CP[:, own] for own in drawn], Sampling(resamples, seed=seed))
        holds.append(bool(((low <= expected + 1e-9) & (expected - 1e-9 <= high)).all()))
    return [float(np.mean(holds)), float(count)]


def excess_intervals(costs: Sequence[FloatArray], sampling: Sampling) -> tuple[FloatArray, FloatArray]:
    """Return the intervals of a transfer table, [choices, domains]: what choices cost beyond a domain's own.

    All of them hold together: each choice is compared with the own one of every domain (Bonferroni).

    Args:
        costs: of each domain [choices, prompts], of the choice from every domain in their order, and of the joint one.
        sampling: of the prompts; its level is that of all intervals together.
    """
    together = replace(sampling, level=1 - (1 - sampling.level) / len(costs) ** 2)
    ends = [
        [mean_interval(cost - cost_CP[domain], together) for cost in cost_CP] for domain, cost_CP in enumerate(costs)
    ]
    low, high = np.array(ends).transpose(2, 1, 0)
    return low, high
