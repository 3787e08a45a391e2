"""What lens, drop, residual and jacobian_lens know of single tokens, for the first tokens of the first prompts.

Nothing is computed for it: the measures of the survey form these values and average them, and hand them over before
they do (``MeasureProbe.tokens``). Variables of a measure that is not among them are missing.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr

from bathyscope.measures.base import Measure, MeasureProbe, ModelFacts
from bathyscope.measures.of.tokens import DECLARATION, TokensOptions
from bathyscope.measures.token_values import NO_TOKEN, TokenValues
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.prompts.tokenizer import pieces
from bathyscope.wavefront.batch import Batch


class Tokens(Measure[TokensOptions], declared=DECLARATION):
    """A dataset of fewer prompts than the others: its coordinate ``prompt`` has their numbers."""

    by_prompt = True
    listens = ("lens", "drop", "residual", "jacobian_lens")

    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        chosen = prompts[: self.options.prompts]
        self._width = min(self.options.length, max(map(len, chosen), default=0))

    @property
    def extents(self) -> Mapping[str, int]:
        return {"token": self._width}

    def probe(self, facts: ModelFacts, batch: Batch, indices: Sequence[int]) -> MeasureProbe:
        chosen = [place for place, number in enumerate(indices) if number < self.options.prompts and self._width]
        return TokensProbe(TokenValues(batch, chosen, self._width), [indices[place] for place in chosen], facts)

    def summarise(self, facts: ModelFacts, merged: xr.Dataset, seed: int) -> xr.Dataset | None:
        if facts.tokenizer is None or not facts.keeps_text:
            return None
        named = [merged[name].values.ravel() for name in ("top_id", "jacobian_id") if name in merged]
        ids = [int(token) for token in np.unique(np.concatenate(named)) if token != NO_TOKEN]
        # behind itself, as decoded alone many a token would lose its leading space
        texts = np.array([pieces((token, token), facts.tokenizer)[1] for token in ids], dtype=object)
        return DECLARATION.dataset({"piece": texts}, {"id": np.array(ids, dtype=np.int64)})


class TokensProbe(MeasureProbe):
    """Observes nothing; takes what the other probes leave for it."""

    def __init__(self, values: TokenValues, numbers: Sequence[int], facts: ModelFacts) -> None:
        super().__init__()
        self._values = values
        self._numbers = numbers
        self._facts = facts

    def beside(self, others: Mapping[str, MeasureProbe]) -> None:
        for probe in others.values():
            probe.tokens = self._values

    def result(self) -> xr.Dataset:
        token_values, blocks = self._values.collect(), np.arange(self._facts.n_blocks)
        data = {name: token_values[name] for name in DECLARATION.table or {} if name in token_values}
        width = data["top_id"].shape[-1]
        coords: dict[str, object] = {
            "prompt": np.array(self._numbers, dtype=np.int64),
            "boundary": np.arange(self._facts.n_blocks + 1),
            "token": np.arange(width),
            "top": np.arange(data["top_id"].shape[-2]),
        }
        coords |= {"block": blocks} if "norm_block" in data else {}
        coords |= {name: np.array(places, dtype=np.int64) for name, places in self._values.coords.items()}
        return DECLARATION.dataset(data, coords)
