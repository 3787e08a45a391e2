"""What depth estimators work on: one run's curves and token depths, prompt by prompt."""

from dataclasses import dataclass

from bathyscope.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class DepthInputs:
    """Per-prompt curves of one run: P prompts, L blocks. A prompt without a value has NaN and is left out.

    The cosines are indexed by block, KL and overlap by block input (boundaries 0 … L−1), token depths by
    boundary (0 … L).
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
