"""``exit_advice``: does it pay to draft with the first blocks of a model, and from which exit?

Or to leave at an exit for good where it is sure enough: a threshold that changes a bounded share of tokens at most.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np

from bathyscope.core.arrays import FloatArray
from bathyscope.core.calls import takes
from bathyscope.core.common_options import ChatForm, Progress
from bathyscope.core.interrupts import ended_as_interrupted
from bathyscope.core.progress import ProgressBar
from bathyscope.core.text import elided
from bathyscope.errors import PromptError, warn
from bathyscope.labels import labelled
from bathyscope.model import Model, ModelArgument, alone, loaded
from bathyscope.model.continuing import settings_beyond_greedy
from bathyscope.model.reading import PromptReading
from bathyscope.prompts.in_memory import Source
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.prompts.prompts import Prompts
from bathyscope.statistics.bootstrap import Interval, bootstrap_interval
from bathyscope.statistics.sampling import Sampling, cluster_weights
from bathyscope.statistics.shares import clustered_share
from bathyscope.surgery.exits import times
from bathyscope.surgery.exits.drafting import Counts, counts
from bathyscope.surgery.exits.generating import generated, require_early_exit
from bathyscope.surgery.exits.leaving import Threshold, find_threshold
from bathyscope.surgery.exits.reading import Trace, traces
from bathyscope.surgery.exits.result import TABLE, ExitAdvice, best_drafts
from bathyscope.surgery.exits.verifying import verify_drafts
from bathyscope.surgery.options import ExitAdviceOptions
from bathyscope.surgery.trial.trial import Trial, read_trial

CountsByDraft = Sequence[Sequence[Sequence[Counts]]]
"""By exit, length of draft, and prompt."""


@takes(ExitAdviceOptions)
def exit_advice(
    model: ModelArgument,
    prompts: Source | Prompts,
    *,
    verify: Source | Prompts | None = None,
    new_tokens: int = 64,
    longest: int = 8,
    changed: float = 0.05,
    resamples: int = 2000,
    level: float = 0.95,
    cluster: str | None = None,
    seed: int = 0,
    beyond_context: bool | None = None,
    add_special_tokens: bool = True,
    chat: ChatForm = False,
    progress: Progress = True,
) -> ExitAdvice:
    """Say whether transformers' ``generate(assistant_early_exit=…)`` pays, and with which exit and draft length.

    The model continues every prompt greedily (without its answer, where it has one). One plain forward over the
    continuation tells at each boundary whether the token it would draft is the one that came; on that the loop of
    drafts and checks is counted. Seconds of a block, of the head and of ``generate`` are measured on this machine.

    Args:
        prompts: as for ``survey``.
        verify: other prompts, which are continued with every exit and without, and compared with what was predicted.
        ...: the options of ``ExitAdviceOptions``.

    Returns:
        ``advice.text``, ``advice.exit`` and ``advice.draft`` (None = don't), ``advice.table``, and ``advice.data`` by
        ``exit`` (blocks done) and ``draft`` (tokens). To follow it, set ``generation_config.num_assistant_tokens`` to
        the draft and ``generation_config.assistant_confidence_threshold`` to 0, and call
        ``generate(assistant_early_exit=advice.exit)``.

    Raises:
        OptionError, PromptError: what is asked for cannot be done; raised before any compute.
        ModelError: transformers cannot stop models of this family early.

    Example:
        >>> advice = bathyscope.exit_advice("model", "prompts.jsonl", new_tokens=4, longest=2, resamples=100)
        >>> dict(advice.data.sizes)["draft"]
        2
    """
    if prompts is None:
        raise PromptError("exit_advice() needs prompts. Give a data set's name, a file or a list of texts.")
    with alone(model):
        ready = loaded(model, prompts, verify)
        read = partial(
            read_trial,
            ready,
            sampling=Sampling(resamples, level, seed),
            cluster=cluster,
            reading=PromptReading(beyond_context, add_special_tokens, chat),
            prepare=partial(_cut_answers, ready, new_tokens, beyond_context),
        )
        trial = read(prompts, title="prompts")
        other = None if verify is None else read(verify, title="verify prompts")
        if other is not None:
            _require_others(trial.test, other.test)
        require_early_exit(ready)
        _warn_of_settings(ready)
        with ended_as_interrupted():
            continued = _continue_prompts(ready, trial.test, new_tokens, progress)
            traced = traces(ready, continued, progress)
            clock = times.measured(ready, trial.test[0].ids, longest)
            counted = [
                [
                    [counts(trace.agrees[place], draft, new_tokens) for trace in traced]
                    for draft in range(1, longest + 1)
                ]
                for place in range(ready.n_blocks - 1)
            ]
            arrays = decide(traced, clock, counted, trial.sampling)
            data = labelled(TABLE, arrays, {"exit": range(1, ready.n_blocks), "draft": range(1, longest + 1)})
            if other is not None:
                drafts = best_drafts(data)["draft"].values.tolist()
                predicted = [counted[place][draft - 1] for place, draft in enumerate(drafts)]
                verified = verify_drafts(other, trial.sampling, new_tokens, drafts, predicted, progress)
                data = data.assign({name: TABLE[name].of(verified[name]) for name in TABLE if name in verified})
                data.attrs["verified_prompts"] = len(other.test)
        threshold = find_threshold(traced, changed, trial.sampling)
        return ExitAdvice(
            data.assign_attrs(
                {
                    **_trial_attrs(trial, traced),
                    "new_tokens": new_tokens,
                    "changed": changed,
                    **_clock_attrs(clock),
                    **_threshold_attrs(threshold),
                }
            )
        )


def _warn_of_settings(model: Model) -> None:
    """Warn of generation settings under which the advice is not of what ``generate`` would write."""
    settings = settings_beyond_greedy(model.hf)
    others = [f"{name}={elided(repr(value), 40)}" for name, value in settings.items()]
    if others:
        warn(
            f"exit_advice is of plain greedy decoding: {', '.join(others)} of the model's generation_config is set "
            "aside, with which generate() writes other tokens. Remove it there to generate as advised."
        )


def _trial_attrs(trial: Trial, traced: Sequence[Trace]) -> dict[str, Any]:
    return {
        **trial.attrs,
        "prompts": len(trial.test),
        "data": trial.test.dataset,
        "data_hash": trial.test.hash,
        "tokens": sum(len(trace.repeated) for trace in traced),
        "repeated": float(np.concatenate([trace.repeated for trace in traced]).mean()),
    }


def _clock_attrs(clock: times.Timings) -> dict[str, Any]:
    settled = clock.settled
    return {
        "block_seconds": float(settled.block[0]),
        "rest_seconds": float(settled.rest[0]),
        "step_seconds": float(settled.step),
        "round_seconds": float(settled.round_),
        "timing_rounds": clock.rounds,
        "timing_scatter": clock.scatter,
        "busy": int(clock.busy),
        "plain_seconds_per_token": float(np.median(clock.plain)),
    }


def _threshold_attrs(threshold: Threshold) -> dict[str, Any]:
    endings = {"exit_": "_exit", "probability": ""}
    return {f"threshold{endings.get(name, f'_{name}')}": value for name, value in asdict(threshold).items()}


def _cut_answers(model: Model, new_tokens: int, beyond_context: bool | None, prompts: Prompts) -> Prompts:
    """Return prompts without their answers, each of which the model can continue.

    Raises:
        PromptError: there is no room to continue one.
    """
    items = []
    for prompt in prompts:
        ids = prompt.ids[: len(prompt) - (prompt.answer_tokens or 0)]
        if not beyond_context and model.max_tokens is not None and len(ids) + new_tokens > model.max_tokens:
            raise PromptError(
                f"The prompt {prompt.id!r} has {len(ids)} tokens, and {new_tokens} more go beyond the context of "
                f"{model.max_tokens}; give shorter prompts, or a smaller new_tokens."
            )
        items.append(TokenizedPrompt(prompt.id, ids, None, prompt.labels, prompt.dataset))
    return replace(prompts, items=tuple(items), record=None)


def _require_others(prompts: Prompts, verify: Prompts) -> None:
    """Refuse to verify on prompts that the prediction was made from.

    Raises:
        PromptError: a prompt of the same tokens is in both.
    """
    advising = {prompt.ids for prompt in prompts}
    shared = [prompt.id for prompt in verify if prompt.ids in advising]
    if shared:
        raise PromptError(
            f"{len(shared)} prompts of verify are among the prompts that give the advice (first: {shared[0]!r}, by "
            "its tokens); give others, such as another part of the text."
        )


def _continue_prompts(model: Model, prompts: Prompts, new_tokens: int, progress: bool) -> list[TokenizedPrompt]:
    """Return every prompt with the model's own continuation as its answer."""
    continued = []
    with ProgressBar("continuing prompts", len(prompts), quiet=not progress) as bar:
        for prompt in prompts:
            tokens = generated(model, prompt.ids, new_tokens).tokens
            continued.append(TokenizedPrompt(prompt.id, (*prompt.ids, *tokens), len(tokens)))
            bar.advance_to(len(continued))
    return continued


def decide(
    traced: Sequence[Trace], clock: times.Timings, counted: CountsByDraft, sampling: Sampling
) -> dict[str, FloatArray]:
    """Return the arrays of the table: acceptance by exit, and speed by exit and draft, with intervals."""
    sizes = {"exit": len(counted), "draft": len(counted[0])}
    data = {name: np.empty([sizes[dim] for dim in label.always]) for name, label in TABLE.items() if not label.optional}
    level, cluster = sampling.level, sampling.cluster
    tokens = cluster_weights([len(trace.repeated) for trace in traced], cluster)
    resampled_counts = sampling.counts(len(traced))
    settled, scattered = clock.settled, clock.resampled(sampling.resamples, sampling.seed)
    for place, by_draft in enumerate(counted):
        right = cluster_weights([trace.agrees[place].sum() for trace in traced], cluster)
        _put_interval(data, "acceptance", place, *clustered_share(right, tokens, level))
        for draft, by_prompt in enumerate(by_draft, start=1):
            at = (place, draft - 1)
            counts_PF = np.array(by_prompt, dtype=np.float64)
            # the whole, and behind it every resample
            sums = np.concatenate([counts_PF.sum(axis=0, keepdims=True), resampled_counts @ counts_PF])
            data["bare_speed"][at] = settled.speed(sums[0], place + 1, draft, bare=True)
            each_pass = sums[:, Counts._fields.index("tokens")] / sums[:, Counts._fields.index("passes")]
            # a pass gives one token, whatever its draft was, and no more than the draft and one behind it
            limits = (1.0, draft + 1.0)
            ends = bootstrap_interval(float(each_pass[0]), each_pass[1:], tokens, level=level, limits=limits)
            _put_interval(data, "tokens_per_pass", at, float(each_pass[0]), ends)
            # prompts and rounds of timing are drawn again at once; no draw gives more than its tokens per pass
            speed = scattered.speed(sums, place + 1, draft, bare=False)
            limits = (0.0, max(ends.high, float(each_pass[0])) if np.isfinite(ends.high) else draft + 1.0)
            ends = bootstrap_interval(float(speed[0]), speed[1:], tokens, level=level, limits=limits)
            _put_interval(data, "speed", at, float(speed[0]), ends)
    return data


def _put_interval(
    data: Mapping[str, FloatArray], name: str, place: int | tuple[int, int], value: float, interval: Interval
) -> None:
    data[name][place] = value
    data[f"{name}_low"][place], data[f"{name}_high"][place] = interval
