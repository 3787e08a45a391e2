"""Pairs: the model without every two blocks, and how much more that costs than each of them alone.

Histories that begin alike are run once, so that all pairs of L blocks take C(L,3) + L(L−1)/2 + L calls of a block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Final

from bathyscope.core.common_options import Level, PromptLabel
from bathyscope.core.descriptions import described
from bathyscope.errors import ModelError, OptionError, warn
from bathyscope.labels import Label, interval
from bathyscope.measures.base import Measure, MeasureProbe, ModelFacts
from bathyscope.measures.declaration import Declaration
from bathyscope.measures.schedule_tables import Blocks, ReadTokens
from bathyscope.measures.schedules import changed
from bathyscope.options import Resamples
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.schedule import Schedule

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr

    from bathyscope.measures.costs import Values
    from bathyscope.measures.token_samples import TokenSample
    from bathyscope.wavefront.batch import Batch
    from bathyscope.wavefront.engine import Wavefront
    from bathyscope.wavefront.histories import Tree

_SOURCE: Final = "own, pairs"
_pair = partial(Label, "prompt dropped other", source=_SOURCE)
_mean = partial(Label, "dropped other", units="nats", source=_SOURCE)


@described
@dataclass(frozen=True)
class PairsOptions:
    """Options of pairs.

    Args:
        blocks: which blocks are left out, alone and two at a time; None = each.
        resamples: bootstrap resamples of the prompts, for intervals of interactions.
        read_tokens: as drop's; intervals over prompts hold what reading only some tokens adds.
    """

    blocks: Blocks = None
    resamples: Resamples = 1000
    level: Level = 0.95
    cluster: PromptLabel = None
    read_tokens: ReadTokens = None

    def __post_init__(self) -> None:
        if self.blocks is not None and len(self.blocks) == 1:
            raise OptionError(
                f"pairs: blocks={list(self.blocks)} is a single block, and a pair has two; give two or more, or drop "
                "in place of pairs (drop.blocks)."
            )


DECLARATION: Final = Declaration(
    "pairs",
    "What it costs to leave out every two blocks, and how much more that is than both costs alone.",
    PairsOptions,
    {
        "cost": _pair(
            "cost of leaving out two blocks, of one on the diagonal", "nats", "mean over tokens of loss(S) − loss(full)"
        ),
        "kl": _pair(
            "KL of the prediction without two blocks, or one, from the full one", "nats", "mean of KL(full ‖ S)"
        ),
        "top1_agreement": _pair(
            "top-1 agreement with the full prediction", "1", "mean over tokens of [argmax p̄ = argmax p]"
        ),
        "interaction": _pair(
            "what leaving out both costs beyond both alone; missing on the diagonal",
            "nats",
            "cost({a, b}) − cost({a}) − cost({b})",
        ),
        "baseline_loss": Label(
            "prompt", "cross-entropy of the next token of the full prediction", "nats", "−log p(next token)", _SOURCE
        ),
        "n_averaged": Label("prompt", "tokens that a prompt's means are over", "token", source=_SOURCE),
        "interaction_mean": _mean("mean interaction over prompts", formula="mean over prompts"),
        **interval("interaction", _mean, "its interval", formula="paired bootstrap over prompts"),
    },
    order=150,
    panels={"interaction": ("interaction", "interaction_mean"), "cost": ("cost",)},
    question="which two blocks make up for each other, and which need each other?",
    rows="one per pair of blocks",
)


_UNASKED: Final = 12
"""Deeper models are measured where it is asked for by name."""


class Pairs(Measure[PairsOptions], declared=DECLARATION):
    """Costs of leaving out every two blocks, with interactions."""

    by_prompt = True

    def unavailable(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt]) -> str | None:
        if facts.n_blocks < 3:
            return "this model has fewer than three blocks"
        if facts.n_blocks > _UNASKED:
            return f"its cost grows with the cube of the {facts.n_blocks} blocks; ask for it by its name"
        return None

    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        from bathyscope.measures.token_samples import sampler_of
        from bathyscope.prompts.parts import clusters

        if facts.n_blocks < 3:
            raise ModelError(f"pairs needs at least three blocks, one of which stays; this model has {facts.n_blocks}.")
        self._sampler = sampler_of(self.options, prompts, seed, self.name)
        if self.options.cluster is not None:
            clusters(prompts, self.options.cluster)
        self._blocks = self._droppable(facts)
        self._tree = _tree(facts.n_blocks, self._blocks)

    def _droppable(self, facts: ModelFacts) -> list[int]:
        """Return the blocks of which any two can be left out."""
        blocks = sorted(changed(self, Schedule.drop, facts.n_blocks, facts))
        standard = Schedule.standard(facts.n_blocks)
        for pair in combinations(blocks, 2):
            if missing := facts.checks.lacking(standard.drop_runs(pair)):
                first, second = pair
                text = f"pairs: blocks {first} and {second} cannot be left out together: {missing}"
                if self.options.blocks is not None:
                    raise ModelError(f"{text}. Leave one of them out of its blocks.")
                warn(f"{text}. Left out of pairs: {second}.")
                return [block for block in blocks if block != second]
        return blocks

    def rows_after(self, facts: ModelFacts, tokens: int) -> float:
        n = facts.n_blocks
        blocks = range(n) if self.options.blocks is None else sorted(set(self.options.blocks) & set(range(n)))
        return _tree(n, blocks).calls / n

    def probe(self, facts: ModelFacts, batch: Batch, indices: Sequence[int]) -> MeasureProbe:
        sampler = self._sampler
        samples = (
            None
            if sampler is None
            else [sampler.sample(number, 0, length - 1) for number, length in zip(indices, batch.lengths)]
        )
        return PairsProbe(batch, self._blocks, self._tree, samples)

    def summarise(self, facts: ModelFacts, merged: xr.Dataset, seed: int) -> xr.Dataset | None:
        import numpy as np

        from bathyscope.prompts.parts import clusters_in
        from bathyscope.statistics.bootstrap import mean_intervals
        from bathyscope.statistics.sampling import Sampling

        values_PAB, options = merged["interaction"].values, self.options
        sampling = Sampling(options.resamples, options.level, seed, clusters_in(merged, options.cluster))
        a, b = np.triu_indices(values_PAB.shape[1], 1)  # a pair has one interval, whichever block is named first
        ends = mean_intervals(values_PAB[:, a, b], sampling)
        low_AB, high_AB = np.full((2, *values_PAB.shape[1:]), np.nan)
        for ends_AB, values in zip((low_AB, high_AB), zip(*ends)):
            ends_AB[a, b] = ends_AB[b, a] = values
        statistics = {"mean": values_PAB.mean(axis=0), "low": low_AB, "high": high_AB}
        coords = {dim: merged[dim] for dim in ("dropped", "other")}
        return DECLARATION.dataset({f"interaction_{name}": value for name, value in statistics.items()}, coords)


class PairsProbe(MeasureProbe):
    """One batch, whose histories are run when the wave has passed.

    Args:
        blocks: that are left out.
        tree: the full model, then each block alone, then every two, in order.
        samples: of the tokens that are read out; None = all.
    """

    def __init__(
        self, batch: Batch, blocks: Sequence[int], tree: Tree, samples: Sequence[TokenSample] | None = None
    ) -> None:
        super().__init__()
        self._samples = samples
        self._batch = batch
        self._blocks = list(blocks)
        self._tree = tree
        self._results: Values = {}

    def after(self, wave: Wavefront, step: Callable[[float], None]) -> None:
        from bathyscope.measures.costs import tree_costs

        calls = self._tree.calls
        self._results = tree_costs(
            wave,
            self._batch,
            self._tree,
            ("loss", "kl", "agreement"),
            lambda done: step(done / calls),
            samples=self._samples,
        )

    def result(self) -> xr.Dataset:
        import numpy as np

        loss = self._results["loss"]
        cost = self._matrix(loss[1:] - loss[0])
        alone = np.diagonal(cost, axis1=1, axis2=2)
        # 0 where the two costs just add up; the diagonal, a block with itself, has no interaction.
        interaction = cost - alone[:, :, None] - alone[:, None, :]
        interaction[:, np.eye(len(self._blocks), dtype=bool)] = np.nan
        data = {
            "cost": cost,
            "kl": self._matrix(self._results["kl"][1:]),
            "top1_agreement": self._matrix(self._results["agreement"][1:]),
            "interaction": interaction,
            "baseline_loss": loss[0],
            "n_averaged": np.array(self._batch.lengths, dtype=np.int64) - 1,
        }
        blocks = np.array(self._blocks, dtype=np.int64)
        return DECLARATION.dataset(data, {"dropped": blocks, "other": blocks})

    def _matrix(self, values_HP: np.ndarray) -> np.ndarray:
        """Singles and pairs as [prompts, blocks, blocks], symmetric."""
        import numpy as np

        size = len(self._blocks)
        matrix = np.empty((values_HP.shape[1], size, size))
        matrix[:, np.arange(size), np.arange(size)] = values_HP[:size].T
        for row, (a, b) in zip(values_HP[size:], combinations(range(size), 2)):
            matrix[:, a, b] = matrix[:, b, a] = row
        return matrix


def _tree(n_blocks: int, blocks: Sequence[int]) -> Tree:
    from bathyscope.wavefront.histories import Tree, Unit

    units = [Unit(block) for block in blocks]
    return Tree.leaving_out(n_blocks, [*([unit] for unit in units), *combinations(units, 2)])
