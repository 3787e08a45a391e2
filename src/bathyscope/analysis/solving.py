"""Which prompts a model solves, and which of two models solve a prompt.

A prompt is solved where greedy decoding from its question gives its answer, token for token. That is the case exactly
where the most probable token is right at every answer token with the right ones before it, so that one forward pass
tells it: up to the first mistake, greedy decoding has seen the same tokens.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np
import pandas as pd
import torch
import xarray as xr
from torch import Tensor

from bathyscope.analysis.options import SolvedByOptions, SolvedOptions
from bathyscope.core.calls import takes
from bathyscope.core.common_options import ChatForm, Progress
from bathyscope.core.progress import ProgressBar
from bathyscope.core.result import LabelledResult, tabulate_over
from bathyscope.core.text import without_folders
from bathyscope.errors import OptionError, PromptError, warn
from bathyscope.labels import Label, Table, labelled
from bathyscope.measures.finite import require_finite
from bathyscope.model import AnyModel, Model, ModelArgument, alone, loaded
from bathyscope.model.identity import compare_models, identity_of
from bathyscope.model.reading import PromptReading, vocabularies_differ
from bathyscope.prompts.in_memory import Source, sources
from bathyscope.prompts.parts import BOTH, CLASSES, ONLY_DEEP, ONLY_SHALLOW, SOLVED_BY, class_of
from bathyscope.prompts.prompt import Prompt, PromptSet
from bathyscope.prompts.prompts import Prompts
from bathyscope.prompts.source import needs_tokenizer, resolve
from bathyscope.wavefront.batch import Batch, plan_batches
from bathyscope.wavefront.distribution import Distribution
from bathyscope.wavefront.engine import Wavefront
from bathyscope.wavefront.observer import Probe
from bathyscope.wavefront.probe import FinalStates

_SOURCE = "exact match of the greedy answer"
_by_prompt = partial(Label, "prompt", source=_SOURCE)
SOLVED_COLUMNS: Final = ("solved", "right_tokens", "answer_tokens", "answer_logprob")
"""Columns of the table after the prompt's id."""
_TABLE: Final[Table] = {
    "solved": _by_prompt("greedy decoding gives the answer", "1", "Π_j [argmax p(· | question, y_1 … y_j−1) = y_j]"),
    "right_tokens": _by_prompt("answer tokens before the first mistake of greedy decoding", "token"),
    "answer_tokens": _by_prompt("tokens of the answer", "token"),
    "answer_logprob": _by_prompt("log-probability of the answer", "nats", "Σ_j log p(y_j | question, y_1 … y_j−1)"),
}


@takes(SolvedOptions)
def solved(
    model: ModelArgument,
    prompts: Source | Prompts,
    *,
    seed: int = 0,
    beyond_context: bool | None = None,
    add_special_tokens: bool = True,
    chat: ChatForm = False,
    progress: Progress = True,
) -> LabelledResult:
    """Whether greedy decoding gives each prompt's answer, and how probable the answer is.

    Nothing is said of what the model would write after the answer, and the same text in other tokens is not the
    answer.

    Args:
        prompts: as for ``survey``, with answers.
        ...: the options of ``SolvedOptions``.

    Returns:
        A result; its ``data`` holds the following.
        By ``prompt``, NaN for a prompt without an answer (one warning counts them): solved (1 or 0), right_tokens (how
        many answer tokens greedy decoding gives before its first mistake), answer_tokens (how many there are) and
        answer_logprob (nats, of the whole answer). The labels of the prompts are coordinates.

    Raises:
        OptionError, PromptError, ModelError: as ``survey``; also where no prompt has an answer.

    Example:
        >>> bathyscope.solved("model", "prompts.jsonl").answer_tokens.values.tolist()
        [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """
    with alone(model):
        loaded_model = loaded(model, prompts)
        read = PromptReading(beyond_context, add_special_tokens, chat).read(loaded_model, prompts, seed=seed)
        without = sum(p.answer_tokens is None for p in read)
        if without == len(read):
            raise _no_answers(read.dataset)
        if without:
            warn(f"{without} of {len(read)} prompts have no answer, and no value.")
        data = _answered(loaded_model, read, progress)
        answered = int(data["solved"].notnull().sum())
        prompts = "prompt with an answer is" if answered == 1 else "prompts with an answer are"
        text = f"{int(data['solved'].sum())} of {answered} {prompts} solved."
        return LabelledResult(data, text, _tabulate)


def _tabulate(data: xr.Dataset) -> pd.DataFrame:
    columns = {"prompt_id": "prompt", **{name: name for name in SOLVED_COLUMNS}}
    return tabulate_over(data, columns, ("prompt",))


@takes(SolvedByOptions)
def solved_by(
    shallow: AnyModel,
    deep: AnyModel,
    prompts: Source,
    *,
    label: str = SOLVED_BY,
    seed: int = 0,
    beyond_context: bool | None = None,
    add_special_tokens: bool = True,
    chat: ChatForm = False,
    progress: bool = True,
) -> PromptSet:
    """The prompts with a label that says which of two models solve them: neither, only shallow, only deep, both.

    A survey of what is returned has the label as a coordinate of every result. Each model reads the prompts with its
    own tokenizer; token ids must mean the same to both: where both tokenizers are known, the tokens of all ids given
    are compared, otherwise only the sizes of the vocabularies.

    Args:
        shallow, deep: what ``load`` returns or takes; ``deep`` has at least as many blocks.
        prompts: as for ``survey``. Prompts without an answer that both models can be asked for are left out, and one
            warning counts them.
        ...: the options of ``SolvedByOptions``.
        progress: show progress bars on standard error when it takes long.

    Raises:
        OptionError: the first model is the deeper one; a name that results use themselves.
        PromptError: no prompt with an answer; prompts that have a label of this name, or are given as token ids that
            mean something else to the other model.
        ModelError: a model cannot be loaded.

    Example:
        >>> labelled = bathyscope.solved_by("shallow", "model", "prompts.jsonl")
        >>> labelled.prompts[0].labels["solved_by"]
        'neither'
    """
    with alone(shallow, deep):
        resolvable = sources(prompts)
        models = [loaded(model, resolvable) for model in (shallow, deep)]
        _require_order(*models)
        _warn_of_one_model(*models)
        tokenizer = models[0].tokenizer if needs_tokenizer(resolvable) else None
        resolved = resolve(resolvable, seed=seed, tokenizer=tokenizer, window=models[0].max_tokens)
        _require_free(resolved, label)
        _require_same_ids(resolved, *models)
        reading = PromptReading(beyond_context, add_special_tokens, chat)
        read = [reading.read(model, resolved, seed=seed) for model in models]
        answers = [[p.answer_tokens is not None for p in model_prompts] for model_prompts in read]
        has_answer = np.logical_and.reduce(answers)
        if not has_answer.any():
            raise _no_answers(resolved.dataset)
        if not has_answer.all():
            warn(
                f"{int((~has_answer).sum())} of {len(has_answer)} prompts have no answer that both models can be "
                "asked for, and are left out.",
            )
        right = [
            _answered(model, model_prompts, progress)["solved"].values == 1
            for model, model_prompts in zip(models, read)
        ]
        classes = [
            class_of(bool(by_shallow), bool(by_deep)) if answered else None
            for by_shallow, by_deep, answered in zip(*right, has_answer)
        ]
        return _labelled(resolved, label, read[0].names, classes)


def count_classes(prompts: PromptSet, label: str = SOLVED_BY) -> LabelledResult:
    """Return how many labelled prompts each of two models solves, classes without any included."""
    counter = Counter(prompt.labels[label] for prompt in prompts.prompts)
    count_by_class = {name: counter[name] for name in CLASSES}
    shallow, deep = (count_by_class[name] + count_by_class[BOTH] for name in (ONLY_SHALLOW, ONLY_DEEP))
    return LabelledResult(
        xr.Dataset({"prompts": ("class", list(count_by_class.values()))}, {"class": list(count_by_class)}),
        f"The shallow model solves {shallow} of {len(prompts)} prompts, the deep one {deep}.",
        lambda data: tabulate_over(data, ("class", "prompts"), ("class",)),
        {"prompts": len(prompts), "classes": count_by_class},
    )


class AnswerProbe(Probe):
    """Reads out the tokens that predict answers, in one batch whose prompts all have one.

    After the wave ``right`` and ``log_p`` hold a tensor [answer tokens] for every prompt: whether the most probable
    token is the answer's, and the log-probability of the answer's (float64, nats).
    """

    def __init__(self) -> None:
        super().__init__()
        self.right: list[Tensor] = []
        self.log_p: list[Tensor] = []

    def finish(self, final: FinalStates) -> None:
        batch = final.batch
        state_ND, answer_ids_N = batch.answer_states(final.baseline_BTD), batch.answer_ids_N
        # Filled slice by slice: where memory runs out a slice is shown again, and overwrites what it left.
        right_N = torch.empty(len(state_ND), dtype=torch.bool, device=state_ND.device)
        log_p_N = torch.empty(len(state_ND), dtype=torch.float64, device=state_ND.device)

        def look(first: int, logits_NV: Tensor) -> None:
            tokens, distribution = slice(first, first + len(logits_NV)), Distribution(logits_NV)
            right_N[tokens] = distribution.top1 == answer_ids_N[tokens]
            log_p_N[tokens] = distribution.log_p_of(answer_ids_N[tokens, None])[:, 0]

        final.reader.read_in_slices(state_ND, look)
        self.right = list(right_N.cpu().split(batch.answer_counts))
        self.log_p = list(log_p_N.cpu().split(batch.answer_counts))
        require_finite("The model", self.log_p)


def _answered(model: Model, prompts: Prompts, progress: bool) -> xr.Dataset:
    """``solved`` of prompts as the model reads them."""
    numbers = {name: np.full(len(prompts), np.nan) for name in ("solved", "right_tokens", "answer_logprob")}
    answered = [number for number, prompt in enumerate(prompts) if prompt.answer_tokens is not None]
    # One plain forward gives every token's top-1 prediction: greedy decoding is right where all of the answer's are.
    wave = Wavefront(model.anatomy, tails=model.checks.tails)
    lengths = [len(prompts[number]) for number in answered]
    with ProgressBar(f"asking {without_folders(model.name)}", sum(lengths), quiet=not progress) as bar:
        for places in plan_batches(lengths, 1, wave.policy.tokens, model.anatomy.equal_lengths):
            picked = [answered[place] for place in places]
            batch_prompts, probe = [prompts[number] for number in picked], AnswerProbe()
            wave.run(
                Batch.of([p.ids for p in batch_prompts], model.device, [p.answer_tokens for p in batch_prompts]),
                [probe],
            )
            for number, right, log_p in zip(picked, probe.right, probe.log_p):
                numbers["solved"][number] = float(right.all())
                # The running product is 1 up to the first mistake and 0 from there on.
                numbers["right_tokens"][number] = float(right.long().cumprod(0).sum())
                numbers["answer_logprob"][number] = float(log_p.sum())
            bar.advance(sum(lengths[place] for place in places))
    numbers["answer_tokens"] = np.array([p.answer_tokens or np.nan for p in prompts], dtype=np.float64)
    attrs = {"model": model.name, "dataset": prompts.dataset}
    return labelled(_TABLE, {name: numbers[name] for name in _TABLE}, prompts.coords()).assign_attrs(attrs)


def _labelled(prompts: PromptSet, label: str, names: Sequence[str], classes: Sequence[str | None]) -> PromptSet:
    """The prompts that have a class, with it as a label and with the names that the whole set gives them."""
    # An iterator over the whole set, from which each part takes as many as it has.
    labelled = iter(
        None if solver is None else replace(prompt, id=name, labels={**prompt.labels, label: solver})
        for prompt, name, solver in zip(prompts.prompts, names, classes)
    )
    parts = []
    for part in prompts.parts or (prompts,):
        labelled_prompts: list[Prompt] = [prompt for _, prompt in zip(part.prompts, labelled) if prompt is not None]
        if labelled_prompts:
            parts.append(replace(part, prompts=tuple(labelled_prompts), parts=()))
    return PromptSet.union(parts)


def _require_order(shallow: Model, deep: Model) -> None:
    if shallow.n_blocks > deep.n_blocks:
        raise OptionError(
            f"The first model, {shallow.name}, has {shallow.n_blocks} blocks and the second, {deep.name}, "
            f"{deep.n_blocks}; give the shallow model first."
        )


def _warn_of_one_model(shallow: Model, deep: Model) -> None:
    agreement = compare_models(identity_of(shallow), identity_of(deep))
    if shallow.schedule == deep.schedule and not agreement.differences and not agreement.unknown:
        warn(
            f"Both models are the same ({without_folders(shallow.name)}), so that no prompt is solved by one of them "
            "alone. Give a shallow and a deep one."
        )


def _require_free(prompts: PromptSet, label: str) -> None:
    taken = sum(label in prompt.labels for prompt in prompts.prompts)
    if taken:
        raise PromptError(
            f"{taken} of {len(prompts)} prompts of {prompts.dataset} have a label {label!r} already; choose another "
            "name (label=, --label), so that results of several pairs of models can stand next to each other."
        )


def _require_same_ids(prompts: PromptSet, shallow: Model, deep: Model) -> None:
    """Token ids are read by both models as they stand."""
    token_ids = {token for prompt in prompts.prompts for token in prompt.ids or ()}
    reason = vocabularies_differ(shallow, deep, token_ids) if token_ids else None
    if reason is not None:
        raise PromptError(
            f"Prompts of {prompts.dataset} are given as token ids, and these mean something else to the other model: "
            f"{reason}. Give the prompts as text, which each model reads with its own tokenizer, or models of one "
            "vocabulary. (A tokenizer that was not found can be given: load(model, tokenizer=…).)"
        )


def _no_answers(dataset: str) -> PromptError:
    return PromptError(
        f"No prompt of {dataset} has an answer that can be checked; give answer= with text=, answer_tokens= with ids=, "
        "or a data set that has answers."
    )
