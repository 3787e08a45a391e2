"""What depth estimators work on: one run's curves and token depths, prompt by prompt."""

from dataclasses import dataclass, fields

import numpy as np

from bathyscope.arrays import FloatArray, IntArray
from bathyscope.errors import OptionError


@dataclass(frozen=True)
class DepthInputs:
    """Per-prompt curves of one run: P prompts, L blocks. A prompt without a value has NaN and is left out.

    The cosines are indexed by block, KL and overlap by block input (boundaries 0 … L−1), token depths by
    boundary (0 … L). Raises an OptionError where shapes do not fit or a token count is not positive.
    """

    cos_attn: FloatArray
    """``[P, L]``, mean over the prompt's tokens of cos(a_l, h_l)."""
    cos_mlp: FloatArray
    """``[P, L]``, mean over the prompt's tokens of cos(m_l, h_l + a_l)."""
    cos_block: FloatArray
    """``[P, L]``, mean over the prompt's tokens of cos(c_l, h_l)."""
    kl: FloatArray
    """``[P, L]``, mean over the prompt's tokens of KL(p_b‖p_L), nats."""
    overlap: FloatArray
    """``[P, L]``, mean over the prompt's tokens of the top-k overlap with p_L, a share."""
    n_tokens: FloatArray
    """``[P]``, tokens that the cosines are means over: their weights."""
    effect_future: FloatArray | None = None
    """``[P, L, L]`` (skipped × block), relative changes; None where skip effects were not measured."""
    settle_depth: FloatArray | None = None
    """``[P]``, mean over the prompt's tokens of the settle depth; None where it was not measured."""
    prediction_depth: FloatArray | None = None
    """``[P]``, mean over the prompt's tokens of the prediction depth; None where it was not measured."""
    n_lens: FloatArray | None = None
    """``[P]``, tokens that the lens is a mean over: weights of KL, overlap and token depths; None = ``n_tokens``."""
    cluster: IntArray | None = None
    """``[P]``, prompts of one number are resampled as one; None where each stands alone."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None:
                kind = np.intp if field.name == "cluster" else np.float64
                object.__setattr__(self, field.name, np.asarray(value, dtype=kind))
        if self.cos_block.ndim != 2 or 0 in self.cos_block.shape:
            raise OptionError(
                f"cos_block has the shape {list(self.cos_block.shape)}; depth curves are [prompts, blocks], "
                "at least one of each."
            )
        n_prompts, n_blocks = self.cos_block.shape
        of_prompts = dict.fromkeys(("n_tokens", "n_lens", "settle_depth", "prediction_depth", "cluster"), (n_prompts,))
        wanted = {**of_prompts, "effect_future": (n_prompts, n_blocks, n_blocks)}
        for field in fields(self):
            value, shape = getattr(self, field.name), wanted.get(field.name, (n_prompts, n_blocks))
            if value is not None and value.shape != shape:
                raise OptionError(
                    f"{field.name} has the shape {list(value.shape)}; with the {n_prompts} prompts and "
                    f"{n_blocks} blocks of cos_block it is {list(shape)}."
                )
        for name in ("n_tokens", "n_lens"):
            counts = getattr(self, name)
            if counts is not None and not (np.isfinite(counts) & (counts > 0)).all():
                raise OptionError(f"{name} holds a count that is not positive; every prompt has at least one token.")

    def weights(self, curve: str) -> FloatArray:
        """``[P]``, the tokens that each prompt's own mean is over: of ``cosine`` or of what the lens gives."""
        return self.n_tokens if curve == "cosine" or self.n_lens is None else self.n_lens

    @property
    def n_blocks(self) -> int:
        """L, the number of blocks."""
        return int(self.cos_block.shape[1])

    @property
    def cosine(self) -> FloatArray:
        """``[P, L]``, mean of the three cosines."""
        return (self.cos_attn + self.cos_mlp + self.cos_block) / 3
