"""``exit_advice``: does it pay to draft with the first blocks of a model, and from which exit?

Or to leave at an exit for good where it is sure enough: a threshold that changes a bounded share of tokens at most.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Final

import numpy as np

from bathyscope.core.arrays import FloatArray, IntArray
from bathyscope.core.interrupts import ended_as_interrupted
from bathyscope.core.progress import ProgressBar
from bathyscope.errors import PromptError
from bathyscope.labels import labelled
from bathyscope.model import AnyModel, Model, alone, config_hash, loaded
from bathyscope.model.reading import tokenized
from bathyscope.options import Coverage, Range, Resamples, checked
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.prompts.prompts import Prompts
from bathyscope.prompts.samples import judging, told_clusters
from bathyscope.prompts.source import Source
from bathyscope.statistics.bootstrap import Interval, bootstrap_interval
from bathyscope.statistics.risk import fewest_prompts, passing
from bathyscope.statistics.sampling import cluster_weights, resample_counts
from bathyscope.statistics.shares import clustered_share, difference_of
from bathyscope.surgery.exits import times
from bathyscope.surgery.exits.drafting import Counts, counts, counts_of, total
from bathyscope.surgery.exits.generating import generated, require_early_exit
from bathyscope.surgery.exits.reading import Trace, traces
from bathyscope.surgery.exits.result import TABLE, ExitAdvice, best_drafts


@checked
def exit_advice(
    model: AnyModel,
    prompts: Source | Prompts,
    *,
    verify: Source | Prompts | None = None,
    new_tokens: Annotated[int, Range(2)] = 64,
    longest: Annotated[int, Range(1, 64)] = 8,
    changed: Annotated[float, Range(0.001, 0.5)] = 0.05,
    resamples: Resamples = 2000,
    level: Coverage = 0.95,
    cluster: str | None = None,
    seed: int = 0,
    beyond_context: bool | None = None,
    progress: bool = True,
) -> ExitAdvice:
    """Says whether transformers' ``generate(assistant_early_exit=…)`` pays, and with which exit and draft length.

    The model continues every prompt greedily (without its answer, where it has one). One plain forward over the
    continuation tells at each boundary whether the token it would draft is the one that came; on that the loop of
    drafts and checks is counted. Seconds of a block, of the head and of ``generate`` are measured on this machine.

    Args:
        model: what ``load`` returns or takes.
        prompts: as for ``survey``.
        verify: other prompts, which are continued with every exit and without, beside what was foretold.
        new_tokens: that a prompt is continued by, at most.
        longest: draft that is looked at; all shorter ones are too.
        changed: share of tokens that may come out otherwise where a token leaves at an exit for good (no check).
        resamples: bootstrap resamples of the prompts.
        level: coverage of the intervals, and of the bound on ``changed``.
        cluster: label of prompts that belong together, such as document; they are resampled, and halved, as one.
        seed: of resampling, of halving the prompts, and of generated problems.
        beyond_context: as for ``survey``.
        progress: show a progress bar on standard error when it takes long.

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
        ready = loaded(model)
        read = {}
        for name, given in (("prompts", prompts), ("verify", verify)):
            if given is not None:
                asked = tokenized(ready, given, seed=seed, beyond_context=beyond_context)
                what = "prompts" if name == "prompts" else f"{name} prompts"
                read[name] = judging(_questions(ready, asked, new_tokens, beyond_context), what)
        _require_apart(**read)
        together = {name: None if cluster is None else some.clusters(cluster) for name, some in read.items()}
        require_early_exit(ready)
        with ended_as_interrupted():
            own = read["prompts"]
            continued = _continued(ready, own, new_tokens, progress)
            found = traces(ready, continued, progress)
            clock = times.measured(ready, own[0].ids, longest)
            counted = [
                [[counts(trace.agrees[place], draft, new_tokens) for trace in found] for draft in range(1, longest + 1)]
                for place in range(ready.n_blocks - 1)
            ]
            judge = {"resamples": resamples, "level": level, "seed": seed}
            data = _decided(found, clock, counted, judge, together["prompts"])
            made = labelled(TABLE, data, {"exit": range(1, ready.n_blocks), "draft": range(1, longest + 1)})
            if verify is not None:
                drafts = best_drafts(made)["draft"].values.tolist()
                foretold = [counted[place][draft - 1] for place, draft in enumerate(drafts)]
                ids = [prompt.ids for prompt in read["verify"]]
                judges = level, together["prompts"], together["verify"]
                ran = verified(ready, ids, new_tokens, drafts, foretold, *judges, progress)
                made = made.assign({name: TABLE[name].of(ran[name]) for name in TABLE if name in ran})
                made.attrs["verified_prompts"] = len(ids)
        tested = threshold(found, changed, level, seed, together["prompts"])
        bound = {
            "threshold" + {"exit_": "_exit", "probability": ""}.get(name, f"_{name}"): value
            for name, value in asdict(tested).items()
        }
        attrs: dict[str, Any] = {"model": ready.name, "n_blocks": ready.n_blocks, "prompts": len(own)}
        attrs |= {"data": own.dataset, "tokens": sum(len(trace.repeated) for trace in found), "new_tokens": new_tokens}
        attrs |= {"repeated": float(np.concatenate([trace.repeated for trace in found]).mean()), "changed": changed}
        settled = clock.settled
        attrs |= {"weight_hash": ready.weight_hash, "config_hash": config_hash(ready.hf)}
        attrs |= {"precision": str(ready.dtype).removeprefix("torch."), "data_hash": own.hash}
        attrs |= {"block_seconds": float(settled.block[0]), "rest_seconds": float(settled.rest[0])}
        attrs |= {"step_seconds": float(settled.step), "round_seconds": float(settled.round_)}
        attrs |= {"timing_rounds": clock.rounds, "timing_scatter": clock.scatter, "busy": int(clock.busy)}
        attrs |= {
            "plain_seconds_per_token": float(np.median(clock.plain)),
            **judge,
            **bound,
            **told_clusters(cluster, together["prompts"]),
        }
        return ExitAdvice(made.assign_attrs(attrs))


def _questions(model: Model, prompts: Prompts, new_tokens: int, beyond: bool | None) -> Prompts:
    """Prompts without their answers.

    Raises:
        PromptError: there is no room to continue one.
    """
    items = []
    for prompt in prompts:
        ids = prompt.ids[: len(prompt) - (prompt.answer_tokens or 0)]
        if not beyond and model.max_tokens is not None and len(ids) + new_tokens > model.max_tokens:
            raise PromptError(
                f"The prompt {prompt.id!r} has {len(ids)} tokens, and {new_tokens} more go beyond the context of "
                f"{model.max_tokens}; give shorter prompts, or a smaller new_tokens."
            )
        items.append(TokenizedPrompt(prompt.id, ids, None, prompt.labels, prompt.dataset))
    return replace(prompts, items=tuple(items), record=None)


def _require_apart(prompts: Prompts, verify: Prompts | None = None) -> None:
    """What is verified is foretold from other prompts.

    Raises:
        PromptError: a prompt of the same tokens stands in both.
    """
    known = {prompt.ids for prompt in prompts}
    shared = [prompt.id for prompt in verify or () if prompt.ids in known]
    if shared:
        raise PromptError(
            f"{len(shared)} prompts of verify stand among the prompts that give the advice (first: {shared[0]!r}, by "
            "its tokens); give others, such as another part of the text."
        )


def _continued(model: Model, prompts: Prompts, new_tokens: int, progress: bool) -> list[TokenizedPrompt]:
    """Every prompt with what the model makes of it as its answer."""
    found = []
    with ProgressBar("continuing prompts", len(prompts), quiet=not progress) as bar:
        for prompt in prompts:
            made = generated(model, prompt.ids, new_tokens).tokens
            found.append(TokenizedPrompt(prompt.id, (*prompt.ids, *made), len(made)))
            bar.advance_to(len(found))
    return found


def _decided(
    found: Sequence[Trace],
    clock: times.Timings,
    counted: Sequence[Sequence[Sequence[Counts]]],
    judge: Mapping[str, Any],
    cluster: IntArray | None,
) -> dict[str, FloatArray]:
    """The table's arrays.

    Args:
        counted: by exit, draft and prompt.
        cluster: [prompts], prompts of one number count as one; None = each for itself.
    """
    sizes = {"exit": len(counted), "draft": len(counted[0])}
    data = {name: np.empty([sizes[dim] for dim in one.always]) for name, one in TABLE.items() if not one.optional}
    level, tokens = judge["level"], cluster_weights([len(trace.repeated) for trace in found], cluster)
    drawn = resample_counts(len(found), judge["resamples"], np.random.default_rng(judge["seed"]), cluster)
    settled, scattered = clock.settled, clock.drawn(judge["resamples"], judge["seed"])
    for place, by_draft in enumerate(counted):
        right = cluster_weights([trace.agrees[place].sum() for trace in found], cluster)
        _put(data, "acceptance", place, *clustered_share(right, tokens, level))
        for draft, by_prompt in enumerate(by_draft, start=1):
            at, own = (place, draft - 1), np.array(by_prompt, dtype=np.float64)
            # the whole, and behind it every resample
            sums = np.concatenate([own.sum(axis=0, keepdims=True), drawn @ own])
            data["bare_speed"][at] = settled.speed(sums[0], place + 1, draft, bare=True)
            each_pass = sums[:, Counts._fields.index("tokens")] / sums[:, Counts._fields.index("passes")]
            ends = bootstrap_interval(float(each_pass[0]), each_pass[1:], tokens, level=level, limits=(0.0, np.inf))
            _put(data, "tokens_per_pass", at, float(each_pass[0]), ends)
            # prompts and rounds of timing are drawn again at once; no draw gives more than its tokens per pass
            speed = scattered.speed(sums, place + 1, draft, bare=False)
            limits = (0.0, max(ends.high, float(each_pass[0])) if np.isfinite(ends.high) else np.inf)
            ends = bootstrap_interval(float(speed[0]), speed[1:], tokens, level=level, limits=limits)
            _put(data, "speed", at, float(speed[0]), ends)
    return data


def _put(
    data: Mapping[str, FloatArray], name: str, place: int | tuple[int, int], value: float, interval: Interval
) -> None:
    data[name][place] = value
    data[f"{name}_low"][place], data[f"{name}_high"][place] = interval


def verified(
    model: Model,
    prompts: Sequence[Sequence[int]],
    new_tokens: int,
    drafts: Sequence[int],
    predicted: Sequence[Sequence[Counts]],
    level: float,
    foretold_from: IntArray | None = None,
    cluster: IntArray | None = None,
    progress: bool = True,
) -> dict[str, Any]:
    """Arrays by exit.

    Args:
        prompts: token ids; each is continued plainly, and then with every exit, one after the other.
        drafts: for every exit the tokens of a draft.
        predicted: for every exit the counts of each prompt of the advice, with drafts of these lengths.
        foretold_from, cluster: of the prompts of the advice, and of these: those of one number count as one.
    """
    exits = range(1, len(drafts) + 1)
    found: list[list[Counts]] = [[] for _ in exits]
    continued: list[TokenizedPrompt] = []
    same, seconds, plain = np.zeros((3, len(drafts)))
    with ProgressBar("generating with and without exits", len(prompts) * (1 + len(drafts)), quiet=not progress) as bar:
        done = 0
        for name, ids in enumerate(prompts):
            without = generated(model, ids, new_tokens)
            continued.append(TokenizedPrompt(str(name), (*ids, *without.tokens), len(without.tokens)))
            plain += without.seconds
            for place, (exit_, draft) in enumerate(zip(exits, drafts)):
                own = generated(model, ids, new_tokens, exit_, draft)
                found[place].append(counts_of(own.tokens, own.drafts))
                same[place] += own.tokens == without.tokens
                seconds[place] += own.seconds
                bar.advance_to(done := done + 1)
            bar.advance_to(done := done + 1)
    rows = [_row((own, cluster), (foretold, foretold_from), level) for own, foretold in zip(found, predicted)]
    plainly = traces(model, continued, progress)
    own_share = [
        _share([counts(trace.agrees[place], draft, new_tokens) for trace in plainly])
        for place, draft in enumerate(drafts)
    ]
    return {
        "own_share": np.array(own_share),
        "identical": same / len(prompts),
        "measured_speed": plain / seconds,
        "plain_seconds": plain / len(prompts),
        "exit_seconds": seconds / len(prompts),
        **{name: np.array([row[name] for row in rows]) for name in rows[0]},
    }


def _share(found: Sequence[Counts]) -> float:
    """Of the checked drafts those that are right; NaN where none was checked."""
    whole = total(found)
    return whole.accepted / whole.checked if whole.checked else np.nan


_Clustered = tuple[Sequence[Counts], IntArray | None]


def _row(found: _Clustered, foretold: _Clustered, level: float) -> Mapping[str, float]:
    one, other = (
        clustered_share(
            cluster_weights([own.accepted for own in several], cluster),
            cluster_weights([own.checked for own in several], cluster),
            level,
        )
        for several, cluster in (foretold, found)
    )
    apart, whole = difference_of(one, other), total(found[0])
    return {
        "foretold_share": one[0],
        "measured_share": other[0],
        "measured_low": other[1].low,
        "measured_high": other[1].high,
        "as_foretold": float(apart.low <= 0 <= apart.high),
        "measured_tokens_per_pass": whole.tokens / whole.passes,
    }


_STEPS: Final = 10
"""Candidates: they would change 0, 1/10, … of the bound on the prompts that they are learned from."""


@dataclass(frozen=True)
class Threshold:
    """What was tested.

    Args:
        exit_: boundary, chosen on the prompts of learning: there most blocks are saved.
        probability: tokens whose likeliest one has at least so much may leave; NaN = no threshold keeps the bound.
        ready: share of the tokens that may.
        changed: mean over prompts of the share of their tokens that come out otherwise.
        prompts: that tested it, and of which ``ready`` and ``changed`` are; or clusters of them.
        fewest: with fewer of them than this none could have passed.
    """

    exit_: int
    probability: float
    ready: float
    changed: float
    prompts: int
    fewest: int


def threshold(
    traces: Sequence[Trace], bound: float, level: float, seed: int, cluster: IntArray | None = None
) -> Threshold:
    """Learns an exit and candidates on one half of the prompts, and tests them on the other.

    Tokens are judged where the tokens before them are the whole model's own, with keys and values of all blocks.

    Args:
        bound: of ``changed``.
        level: 1 − the chance that the threshold breaks it.
        cluster: [prompts], prompts of one number go into one half, and their mean counts once; None = each for itself.
    """
    numbers = np.arange(len(traces)) if cluster is None else cluster
    together = [[traces[int(place)] for place in np.flatnonzero(numbers == own)] for own in np.unique(numbers)]
    order = np.random.default_rng(seed).permutation(len(together))
    halves = [[together[place] for place in half] for half in np.array_split(order, 2)]
    learned, tested = [trace for own in halves[0] for trace in own], halves[1]
    n_exits = len(traces[0].agrees)
    ladders = [_ladder(learned, exit_, bound) for exit_ in range(n_exits)]
    ready = [_means(learned, exit_, ladder[-1])[0] for exit_, ladder in enumerate(ladders)]
    saved = [own * (1 - exit_ / (n_exits + 1)) for exit_, own in enumerate(ready, start=1)]
    best = int(np.argmax(saved))
    losses = np.array(
        [[np.mean([_changed(trace, best, one) for trace in own]) for own in tested] for one in ladders[best]]
    )
    number = passing(losses, bound, 1 - level)
    found = float(ladders[best][number - 1]) if number else np.nan
    found = found if np.isfinite(found) else np.nan  # only a threshold that no token reaches keeps the bound
    shares = [float(np.mean(own)) for own in zip(*(_means(own, best, found) for own in tested))]
    return Threshold(best + 1, found, shares[0], shares[1], len(tested), fewest_prompts(bound, 1 - level))


def _ladder(traces: Sequence[Trace], exit_: int, bound: float) -> FloatArray:
    """Probabilities from the safest down, each of a token that may then leave."""
    sure = np.concatenate([trace.probability[exit_] for trace in traces])
    wrong = np.concatenate([~trace.agrees[exit_] / len(trace.repeated) for trace in traces]) / len(traces)
    order = np.argsort(-sure, kind="stable")
    changed = np.cumsum(wrong[order])
    # of equal probabilities all leave, or none
    last = np.append(sure[order][1:] < sure[order][:-1], True)
    sure, changed = sure[order][last], changed[last]
    places = [int(np.searchsorted(changed, bound * step / _STEPS, side="right")) - 1 for step in range(_STEPS + 1)]
    found = [sure[place] if place >= 0 else np.inf for place in places]
    return np.array(list(dict.fromkeys(found)))


def _changed(trace: Trace, exit_: int, probability: float) -> float:
    return float((~trace.agrees[exit_] & (trace.probability[exit_] >= probability)).mean())


def _means(traces: Sequence[Trace], exit_: int, probability: float) -> tuple[float, float]:
    """Shares of tokens that leave, and that change, means over prompts."""
    leaving = [float((trace.probability[exit_] >= probability).mean()) for trace in traces]
    return float(np.mean(leaving)), float(np.mean([_changed(trace, exit_, probability) for trace in traces]))
