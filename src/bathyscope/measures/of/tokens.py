"""What lens, drop, residual and jacobian_lens know of single tokens, for the first tokens of the first prompts.

Nothing is computed for it: the measures of the survey form these values and average them, and hand them over before
they do (``MeasureProbe.tokens``). Variables of a measure that is not among them are missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

from bathyscope.labels import Label
from bathyscope.measures.base import Measure, MeasureProbe, ModelFacts
from bathyscope.measures.declaration import Declaration
from bathyscope.options import Range
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.prompts.tokenizer import pieces

if TYPE_CHECKING:
    import xarray as xr

    from bathyscope.measures.token_values import TokenValues
    from bathyscope.wavefront.batch import Batch

_LENS = "logit lens"
_DROP = "lad2024, layer interventions"
_RESIDUAL = "csordas2025, residual stream"
_at_boundary = partial(Label, "prompt boundary token", source=_LENS)
_top = partial(Label, "prompt boundary top token", source=_LENS)
_norm = partial(Label, source=_RESIDUAL, optional=True)
_jacobian = partial(Label, "prompt boundary token", source="jlens 2026, Jacobian lens", optional=True)


@dataclass(frozen=True)
class TokensOptions:
    """Options of tokens.

    Args:
        prompts: how many prompts, the first ones; 0 = none.
        length: how many tokens of each, the first ones; 0 = none.
    """

    prompts: Annotated[int, Range(0)] = 16
    length: Annotated[int, Range(0)] = 256


DECLARATION: Final = Declaration(
    "tokens",
    "What lens, drop, residual and jacobian_lens know of single tokens of the first prompts.",
    TokensOptions,
    {
        "top_id": _top("likeliest tokens of the lens, the likeliest first", formula="argmax₅ p_b"),
        "top_probability": _top("probability of the lens's likeliest tokens", formula="p_b(argmax₅ p_b)"),
        "kl_final_lens": _at_boundary("KL of the final distribution from the lens", "nats", "KL(p_L ‖ p_b)"),
        "entropy": _at_boundary("entropy of the lens", "bits", "−Σ p_b log₂ p_b"),
        "next_probability": _at_boundary("probability of the next token under the lens", "1", "p_b(next token)"),
        "settle_depth": Label(
            "prompt token", "settle depth", "boundary", "min{b : JSD₂(p_b, p_L) ≤ 0.5}", "deep-thinking ratio"
        ),
        "prediction_depth": Label(
            "prompt token",
            "prediction depth",
            "boundary",
            "min{b : argmax p_j = argmax p_L for all j ≥ b}",
            "Baldock et al. 2021, prediction depth",
        ),
        "added_loss": Label(
            "prompt dropped token",
            "loss added without one block",
            "nats",
            "−log p̄(next token) + log p(next token)",
            _DROP,
            optional=True,
        ),
        "added_kl": Label(
            "prompt dropped token",
            "KL of the prediction without one block from the normal one",
            "nats",
            "KL(p ‖ p̄)",
            _DROP,
            optional=True,
        ),
        "norm_resid": _norm("prompt boundary token", "norm of the residual stream", "1", "‖h_b‖₂"),
        "norm_attn": _norm("prompt block token", "norm of the attention contribution", "1", "‖a_l‖₂"),
        "norm_mlp": _norm("prompt block token", "norm of the MLP contribution", "1", "‖m_l‖₂"),
        "norm_block": _norm("prompt block token", "norm of the block contribution", "1", "‖c_l‖₂"),
        "jacobian_id": _jacobian(
            "likeliest token of the Jacobian lens; −1 where it does not read",
            formula="argmax p_b, p_b = readout(J_b h_b)",
        ),
        "jacobian_probability": _jacobian("probability of the likeliest token of the Jacobian lens", "1", "max p_b"),
        "piece": Label("id", "a token of top_id or jacobian_id as text", optional=True, source="tokenizer"),
    },
    requires=("lens",),
    order=910,
    question="token by token: what is read at each boundary, and what each block adds?",
    rows="none of its own",
    needs="last boundary",
)


class Tokens(Measure[TokensOptions], declared=DECLARATION):
    """A dataset of fewer prompts than the others: its coordinate ``prompt`` has their numbers."""

    by_prompt = True
    reads_values_of = ("lens", "drop", "residual", "jacobian_lens")

    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        chosen = prompts[: self.options.prompts]
        self._width = min(self.options.length, max(map(len, chosen), default=0))

    @property
    def lengths_by_dim(self) -> Mapping[str, int]:
        return {"token": self._width}

    def probe(self, facts: ModelFacts, batch: Batch, indices: Sequence[int]) -> MeasureProbe:
        from bathyscope.measures.token_values import TokenValues

        chosen = [place for place, number in enumerate(indices) if number < self.options.prompts and self._width]
        return TokensProbe(TokenValues(batch, chosen, self._width), [indices[place] for place in chosen], facts)

    def summarise(self, facts: ModelFacts, merged: xr.Dataset, seed: int) -> xr.Dataset | None:
        import numpy as np

        from bathyscope.measures.token_values import NO_TOKEN

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

    def meet_probes(self, others: Mapping[str, MeasureProbe]) -> None:
        for probe in others.values():
            probe.tokens = self._values

    def result(self) -> xr.Dataset:
        import numpy as np

        token_values, blocks = self._values.collect(), np.array(self._facts.seen_blocks)
        data = {name: token_values[name] for name in DECLARATION.table or {} if name in token_values}
        width = data["top_id"].shape[-1]
        coords: dict[str, object] = {
            "prompt": np.array(self._numbers, dtype=np.int64),
            "boundary": np.array(self._facts.boundaries),
            "token": np.arange(width),
            "top": np.arange(data["top_id"].shape[-2]),
        }
        coords |= {"block": blocks} if "norm_block" in data else {}
        coords |= {name: np.array(places, dtype=np.int64) for name, places in self._values.coords.items()}
        return DECLARATION.dataset(data, coords)
