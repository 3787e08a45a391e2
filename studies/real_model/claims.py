"""What the three papers claim of how models use their depth, and by which bound each claim is judged on this model.

The bounds were written before the rows were measured. A claim *holds* where the whole 95 % interval of its quantity
lies inside the bound, *does not hold* where the whole interval lies outside, and *cannot be decided* otherwise.
Intervals resample prompts. Fractions of the depth count blocks done (the index of a block plus one) over all blocks.

Three rows were not blind: the criteria on eight GSM8K prompts were known to be 21, 19 and 23 of 30 blocks. Their bounds
are wider than what the paper's models of 1.5 billion parameters read, and hold all of it but one outlier.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

INFINITE: Final = float("inf")


@dataclass(frozen=True)
class Claim:
    """One row of the table.

    Args:
        key: short name; also the name of its file of results.
        paper, figure: where it is claimed.
        text: the claim, for this model.
        quantity: the number that is measured, in words; computed by the function of the key's name.
        job: which survey it is read off.
        low, high: the bound, both ends included.
        control: what untrained models (and shuffled blocks) tell beside it.
        cost: 1 = a minute of one core for all models, 2 = ten minutes, 3 = an hour or more.
    """

    key: str
    paper: str
    figure: str
    text: str
    quantity: str
    job: str
    low: float = -INFINITE
    high: float = INFINITE
    control: str = "three untrained models"
    cost: int = 1

    @property
    def bound(self) -> str:
        """The bound in words."""
        if self.low == -INFINITE:
            return f"at most {self.high:g}"
        if self.high == INFINITE:
            return f"at least {self.low:g}"
        return f"{self.low:g} to {self.high:g}"


C: Final = "csordas2025"
H: Final = "hu2025"
L: Final = "lad2024"
SHUFFLED: Final = "three untrained models; middle blocks shuffled"

CLAIMS: Final = (
    Claim(
        "contribution_falls",
        C,
        "Fig. 2a",
        "Blocks of the second half change the stream less than those of the first.",
        "mean relative contribution of blocks, second half over first half, block 0 left out",
        "stream",
        high=0.75,
        control=SHUFFLED,
    ),
    Claim(
        "contribution_ends",
        C,
        "Fig. 2a",
        "The last blocks change the stream more than those before them.",
        "mean relative contribution, last 2 blocks over the rest of the second half",
        "stream",
        low=1.25,
        control=SHUFFLED,
    ),
    Claim(
        "cosine_rises",
        C,
        "Fig. 2b",
        "Contributions lie more along the stream in the second half than in the first.",
        "mean cosine of contribution and stream, second half less first half",
        "stream",
        low=0.0,
        control=SHUFFLED,
    ),
    Claim(
        "phase_transition",
        C,
        "Fig. 2b",
        "The change from erasing to strengthening comes at about the middle.",
        "where the mean cosine last turns from negative to positive, fraction of the depth",
        "stream",
        low=0.35,
        high=0.75,
        control=SHUFFLED,
    ),
    Claim(
        "skip_future_halves",
        C,
        "Fig. 3b",
        "Skipping a block of the second half changes later tokens' later blocks less.",
        "mean effect on later blocks at later tokens, second half of skipped blocks over first half, block 0 left out",
        "skip",
        high=0.5,
        cost=3,
    ),
    Claim(
        "skip_all_halves",
        C,
        "Fig. 3a",
        "Skipping a block of the second half changes later blocks of the same tokens less.",
        "mean effect on later blocks at all tokens, second half of skipped blocks over first half, block 0 left out",
        "skip",
        high=1.0,
        cost=3,
    ),
    Claim(
        "skip_output",
        C,
        "Fig. 17",
        "The second half matters for the next token, and hardly for later ones.",
        "effect on the output at later tokens over that at all tokens, mean over the second half",
        "skip",
        high=0.5,
        cost=3,
    ),
    Claim(
        "skip_gap",
        C,
        "Fig. 17",
        "That gap is wider in the second half than in the first.",
        "output effect at later over all tokens, second half less first half",
        "skip",
        high=0.0,
        cost=3,
    ),
    Claim(
        "lens_kl_late",
        C,
        "Fig. 4a",
        "Predictions come close to the final one in the second half only.",
        "KL of the logit lens to the final prediction at half the depth, over its largest",
        "stream",
        low=0.5,
        control=SHUFFLED,
    ),
    Claim(
        "lens_overlap_late",
        C,
        "Fig. 4b",
        "The final top 5 tokens appear in the second half only.",
        "overlap of the top 5 at half the depth",
        "stream",
        high=0.2,
        control=SHUFFLED,
    ),
    Claim(
        "hops_mquake",
        C,
        "Fig. 7b",
        "Questions of more hops do not use more depth.",
        "slope of the depth score in blocks for each hop, MQuAKE 2 to 4 hops",
        "hops",
        low=-0.75,
        high=0.75,
        cost=3,
    ),
    Claim(
        "hops_two_hop",
        C,
        "after Fig. 7",
        "Two-hop prompts use no more depth than their first hops alone.",
        "depth score of two-hop prompts less that of their first hops, in blocks",
        "two_hop",
        low=-0.75,
        high=0.75,
        cost=3,
    ),
    Claim(
        "steps_gsm8k",
        C,
        "after Fig. 7",
        "Problems of more steps do not use more depth.",
        "slope of the depth score in blocks for each step, GSM8K",
        "steps",
        low=-0.75,
        high=0.75,
        cost=3,
    ),
    Claim(
        "erasure_operands",
        C,
        "Fig. 6",
        "What later steps need of operands has been moved before the last third.",
        "largest erasure effect of operands in the last third of boundaries, over the largest at all",
        "erasure",
        high=0.5,
        cost=2,
    ),
    Claim(
        "gradients_first_half",
        C,
        "Fig. 6",
        "Integrated gradients of the answer lie mostly in the first half.",
        "share of the sum of absolute attributions in the first half of blocks",
        "gradients",
        low=0.5,
        cost=3,
    ),
    Claim(
        "criterion_cosine",
        H,
        "Table 1",
        "The cosine criterion reads 0.5 to 0.75 of the depth.",
        "(index of the criterion + 1) over blocks, GSM8K",
        "stream",
        low=0.5,
        high=0.75,
        control=SHUFFLED,
    ),
    Claim(
        "criterion_kl",
        H,
        "Table 1",
        "The KL criterion reads 0.7 to 0.9 of the depth.",
        "(index of the criterion + 1) over blocks, GSM8K",
        "stream",
        low=0.7,
        high=0.9,
        control=SHUFFLED,
    ),
    Claim(
        "criterion_overlap",
        H,
        "Table 1",
        "The overlap criterion reads 0.8 to 0.95 of the depth.",
        "(index of the criterion + 1) over blocks, GSM8K",
        "stream",
        low=0.8,
        high=0.95,
        control=SHUFFLED,
    ),
    Claim(
        "criteria_order",
        H,
        "Table 1",
        "The KL criterion is met before the overlap criterion.",
        "overlap criterion less KL criterion, in blocks, GSM8K",
        "stream",
        low=0.0,
        control=SHUFFLED,
    ),
    Claim(
        "difficulty_cosine",
        H,
        "Table 1",
        "The cosine criterion does not grow from commonsense to arithmetic.",
        "cosine criterion on GSM8K less that on HellaSwag, fraction of the depth",
        "stream and commonsense",
        low=-0.1,
        high=0.1,
    ),
    Claim(
        "difficulty_kl",
        H,
        "Table 1",
        "The KL criterion does not grow from commonsense to arithmetic.",
        "KL criterion on GSM8K less that on HellaSwag, fraction of the depth",
        "stream and commonsense",
        low=-0.1,
        high=0.1,
    ),
    Claim(
        "difficulty_overlap",
        H,
        "Table 1",
        "The overlap criterion does not grow from commonsense to arithmetic.",
        "overlap criterion on GSM8K less that on HellaSwag, fraction of the depth",
        "stream and commonsense",
        low=-0.1,
        high=0.1,
    ),
    Claim(
        "drop_middle",
        L,
        "Fig. 5a",
        "Without one middle block most predictions stay (72 to 95 % in the paper).",
        "top-1 agreement without one block, mean over blocks of the middle 80 %",
        "drop",
        low=0.72,
        cost=2,
    ),
    Claim(
        "drop_first",
        L,
        "Fig. 5a",
        "Removing the first block is the worst.",
        "KL without block 0 over the mean without one of the middle 80 %",
        "drop",
        low=3.0,
        cost=2,
    ),
    Claim(
        "drop_last",
        L,
        "Fig. 5a",
        "Removing the last block costs more than removing a middle one.",
        "KL without the last block over the mean without one of the middle 80 %",
        "drop",
        low=1.0,
        cost=2,
    ),
    Claim(
        "swap_milder",
        L,
        "Fig. 5a",
        "Exchanging two neighbours costs less than removing a block.",
        "KL of exchanges over KL of removals, means over the middle 80 %",
        "drop",
        high=1.0,
        cost=2,
    ),
    Claim(
        "repeat_milder",
        L,
        "Fig. 11",
        "Repeating a middle block costs less than removing it (our claim; the paper repeats blocks).",
        "KL of repeats over KL of removals, means over the middle 80 %",
        "repeat",
        high=1.0,
        cost=2,
    ),
    Claim(
        "accuracy_kept",
        L,
        "Fig. 15",
        "Accuracy is kept without one middle block, HellaSwag, ARC-easy and LAMBADA.",
        "accuracy without one of every third middle block over that of the whole model",
        "benchmarks",
        low=0.72,
        high=1.1,
        cost=3,
    ),
    Claim(
        "attention_local",
        L,
        "Fig. 6a",
        "Early blocks attend to nearby tokens, stage 1.",
        "attention to the previous five tokens, first fifth of blocks less the rest",
        "attention",
        low=0.0,
    ),
    Claim(
        "subjoiners_early",
        L,
        "Fig. 6b",
        "Heads that join the tokens of a word stand in early blocks.",
        "mean block of the ten best sub-joiner heads, fraction of the depth",
        "subjoiners",
        high=0.34,
        cost=2,
    ),
    Claim(
        "wic_middle",
        L,
        "Fig. 7a",
        "A probe for a word's sense is best in the first two thirds, not at the end.",
        "boundary of the best WiC probe, fraction of the depth",
        "wic",
        high=0.67,
        cost=3,
    ),
    Claim(
        "prediction_neurons",
        L,
        "Fig. 8",
        "Prediction neurons stand in the second half.",
        "share of prediction neurons in the second half of blocks",
        "weights",
        low=0.6,
    ),
    Claim(
        "suppression_later",
        L,
        "Fig. 8",
        "Suppression neurons stand behind prediction neurons.",
        "mean block of suppression neurons less that of prediction neurons, fraction of the depth",
        "weights",
        low=0.0,
    ),
    Claim(
        "entropy_falls",
        L,
        "Fig. 7b",
        "The entropy of the logit lens falls in the second half, not before.",
        "fall of the lens's entropy in the second half, over its whole fall from its largest value",
        "stream",
        low=0.5,
        control=SHUFFLED,
    ),
    Claim(
        "mlp_grows",
        L,
        "Fig. 10",
        "MLP contributions grow at the end, stage 4.",
        "mean norm of MLP contributions, last fifth of blocks over the middle three fifths (position 0 left out)",
        "stream",
        low=1.0,
        control=SHUFFLED,
    ),
    Claim(
        "answer_arrives",
        L,
        "Table 1",
        "Patched answers arrive at the last token in the second half (our claim; the paper names the method).",
        "boundary at which patching the last token restores half of the answer, fraction of the depth",
        "patching",
        low=0.5,
        cost=3,
    ),
)
