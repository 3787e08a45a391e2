"""What was predicted of drafts, compared with runs of other prompts: ``generate`` with every exit and without."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bathyscope.core.progress import ProgressBar
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.statistics.bootstrap import Interval
from bathyscope.statistics.sampling import Sampling, cluster_weights
from bathyscope.statistics.shares import clustered_share, difference_of
from bathyscope.surgery.exits.drafting import Counts, counts, counts_of, total
from bathyscope.surgery.exits.generating import generated
from bathyscope.surgery.exits.reading import traces
from bathyscope.surgery.trial.trial import Trial


def verify_drafts(
    trial: Trial,
    predicting: Sampling,
    new_tokens: int,
    drafts: Sequence[int],
    predicted: Sequence[Sequence[Counts]],
    progress: bool = True,
) -> dict[str, Any]:
    """Run every prompt plainly and with every exit, one after the other, and return arrays by exit.

    Args:
        trial: the model, and the prompts that verify.
        predicting: of the prompts of the advice.
        drafts: for every exit the tokens of a draft.
        predicted: for every exit the counts of each prompt of the advice, with drafts of these lengths.
    """
    model = trial.model
    exits = range(1, len(drafts) + 1)
    measured: list[list[Counts]] = [[] for _ in exits]
    continued: list[TokenizedPrompt] = []
    same, seconds, plain_seconds = np.zeros((3, len(drafts)))
    steps = len(trial.test) * (1 + len(drafts))
    with ProgressBar("generating with and without exits", steps, quiet=not progress) as bar:
        done = 0
        for number, prompt in enumerate(trial.test):
            plain = generated(model, prompt.ids, new_tokens)
            continued.append(TokenizedPrompt(str(number), (*prompt.ids, *plain.tokens), len(plain.tokens)))
            plain_seconds += plain.seconds
            for place, (exit_, draft) in enumerate(zip(exits, drafts)):
                drafted = generated(model, prompt.ids, new_tokens, exit_, draft)
                measured[place].append(counts_of(drafted.tokens, drafted.drafts))
                same[place] += drafted.tokens == plain.tokens
                seconds[place] += drafted.seconds
                bar.advance_to(done := done + 1)
            bar.advance_to(done := done + 1)
    rows = [_compare_runs(run, trial.sampling, advised, predicting) for run, advised in zip(measured, predicted)]
    plainly_traced = traces(model, continued, progress)
    own_share = [
        _right_share([counts(trace.agrees[place], draft, new_tokens) for trace in plainly_traced])
        for place, draft in enumerate(drafts)
    ]
    return {
        "own_share": np.array(own_share),
        "identical": same / len(trial.test),
        "measured_speed": plain_seconds / seconds,
        "plain_seconds": plain_seconds / len(trial.test),
        "exit_seconds": seconds / len(trial.test),
        **{name: np.array([row[name] for row in rows]) for name in rows[0]},
    }


def _right_share(counted: Sequence[Counts]) -> float:
    """Return which share of the checked drafts is right; NaN where none was checked."""
    whole = total(counted)
    return whole.accepted / whole.checked if whole.checked else np.nan


def _share_interval(counted: Sequence[Counts], sampling: Sampling) -> tuple[float, Interval]:
    """Return the share of right drafts with its interval."""
    accepted = cluster_weights([each.accepted for each in counted], sampling.cluster)
    checked = cluster_weights([each.checked for each in counted], sampling.cluster)
    return clustered_share(accepted, checked, sampling.level)


def _compare_runs(
    run: Sequence[Counts], running: Sampling, advised: Sequence[Counts], predicting: Sampling
) -> dict[str, float]:
    """Return what a run gave at one exit, next to what was predicted there."""
    predicted, measured = _share_interval(advised, predicting), _share_interval(run, running)
    gap = difference_of(predicted, measured)
    whole = total(run)
    return {
        "foretold_share": predicted[0],
        "measured_share": measured[0],
        "measured_low": measured[1].low,
        "measured_high": measured[1].high,
        "as_foretold": float(gap.low <= 0 <= gap.high),
        "measured_tokens_per_pass": whole.tokens / whole.passes,
    }
