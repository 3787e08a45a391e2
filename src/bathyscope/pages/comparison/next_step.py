"""What is below the picture of a comparison: what its estimators mean, and the command to run next."""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING, Final

from bathyscope.analysis.depths.questions import DIFFERENCE
from bathyscope.analysis.depths.sentences import differs, head_row, prompts_needed, surviving
from bathyscope.core.text import capitalised
from bathyscope.model.identity import compare_models
from bathyscope.pages.head.section import Fact
from bathyscope.pages.text.commands import more_prompts, prompts_flags, quote_model

if TYPE_CHECKING:
    from bathyscope.analysis.depths import Comparison
    from bathyscope.runs.run import Run

_MEANINGS: Final = {
    "half": "half of the tokens kept: from which share of its blocks on half of all tokens keep their final prediction",
    "readable": "average token kept: the share of its blocks after which a token's most likely next token is the final "
    "one, a mean over tokens",
    "prediction": "prediction depth: the blocks after which a token's most likely next token no longer changes",
    "settle": "settle depth: the blocks after which its whole prediction stays within half a bit of the final one",
    "centre_of_mass": "centre of mass: the mean position of what skipping blocks changes, 50 % where all matter alike",
    "cosine": "cosine: where contributions begin to strengthen what the stream already says",
    "kl": "KL: where the lens has lost most of its distance from the final prediction",
    "overlap": "top-k overlap: where the lens begins to name the final candidates",
}
_MEASURES: Final = "lens,skip,drop,tokens"


def comparison_facts(comparison: Comparison, number: int) -> list[Fact]:
    """Return what the proved estimators mean, and the next command; nothing for slopes over several sizes."""
    if comparison.quantity != DIFFERENCE:
        return []
    head = head_row(comparison, number)
    names = ["half" if head is None else head.estimator]
    names += [row.estimator.removeprefix("interpolated_") for row in surviving(comparison, number)]
    meanings = [_MEANINGS[name] for name in dict.fromkeys(names) if name in _MEANINGS]
    text = f"{'; '.join(meanings)}."
    return [Fact("What is compared", capitalised(text)), *_suggest_next(comparison, number)]


def _suggest_next(comparison: Comparison, number: int) -> list[Fact]:
    """Return the command that would say most: more prompts, else controls, else where two equal shapes part."""
    runs_by_name = {side.name: side.run for side in comparison.sides}
    names = [str(comparison.data[end].values[number]) for end in ("reference", "other")]
    reference, other = (runs_by_name.get(name) for name in names)
    # Groups of one run's prompts need no other survey.
    if reference is None or other is None or reference is other:
        return []
    head = head_row(comparison, number)
    if head is None or not differs(head):
        needed = prompts_needed(comparison, number)
        if not needed:
            alone = int(comparison.data["n_prompts"].values[number].max()) == 1
            command = _survey(other, prompts=more_prompts(other, 10))
            return [Fact("Next", "To test a difference, survey both on ten prompts or more:", command)] * alone
        if needed.startswith("more"):
            # No survey is that long, and what this many prompts would prove is next to nothing.
            command = f"bathyscope compare {_name_folder(reference)} {_name_folder(other)} --equivalence 0.1"
            return [Fact("Next", "To test that they agree to a tenth of the depth:", command)]
        # the number is of the prompts, or clusters, that were compared, and two samples are counted together
        is_paired = str(comparison.data["kind"].values[number]) == "paired"
        in_clusters = needed.endswith("clusters")
        of_prompts = f"{needed} of prompts" if in_clusters else f"{needed} prompts"
        how = f"survey both on {of_prompts}" if is_paired else f"survey {of_prompts}, half of them with each"
        count = int("".join(filter(str.isdigit, needed)))
        if in_clusters:
            assert head is not None  # without one there is no number
            sizes = comparison.readings.isel(comparison=number).sel(reading=head.estimator)
            count = math.ceil(count * int(sizes["n_prompts"]) / int(sizes["n_units"]))
        prompts = more_prompts(other, count if is_paired else -(-count // 2))
        return [Fact("Next", f"To prove a difference of this size, {how}:", _survey(other, prompts=prompts))]
    same_model = not compare_models(reference.identity.of_model, other.identity.of_model).differences
    bare = next(
        (run for run in (reference, other) if not any(name.startswith("untrained") for name in run.controls)), None
    )
    if not same_model and bare is not None:
        command = f"{_survey(bare, 'lens,skip')} --control untrained:3"
        return [Fact("Next", "To know how much of this training caused, survey each with untrained controls:", command)]
    names = [quote_model(run.identity.model) for run in (reference, other)]
    # a name alone does not say that its adapters were on in one run and off in the other
    if not same_model and reference.n_blocks == other.n_blocks and names[0] != names[1]:
        models = " ".join(names)
        command = f"bathyscope diff {models} {prompts_flags(other)}"
        return [Fact("Next", "To see in which blocks the two models part:", command)]
    return [
        Fact(
            "Next", "To see whether it holds on other text, survey both on it:", _survey(other, prompts="OTHERS.jsonl")
        )
    ]


def _name_folder(run: Run) -> str:
    return "RUN" if run.path is None else shlex.quote(str(run.path))


def _survey(run: Run, measures: str = _MEASURES, prompts: str = "") -> str:
    model = quote_model(run.identity.model)
    return f"bathyscope survey {model} {prompts_flags(run, prompts)} --measures {measures} --out runs/more"
