"""One task under one schedule, scored by lm-evaluation-harness. Imports the harness: import this only on use."""

import copy
import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import lm_eval
import numpy as np
import torch
from lm_eval.evaluator import evaluate as run_harness
from lm_eval.models.huggingface import HFLM
from lm_eval.models.utils import handle_stop_sequences, normalize_gen_kwargs
from torch import Tensor

from bathyscope.core.arrays import FloatArray
from bathyscope.core.text import counted
from bathyscope.errors import OptionError, warn
from bathyscope.model import Model
from bathyscope.model.continuing import settings_beyond_greedy
from bathyscope.prompts.harness.loading import WRITTEN, Benchmark, build_requests, quietly
from bathyscope.prompts.tokenizer import ask
from bathyscope.surgery.benchmarks.answers import Question, Writer, ends_of_answers
from bathyscope.surgery.benchmarks.result import CUT_OFF, per_document

VERSION = str(lm_eval.__version__)
LOGLIKELIHOOD = "loglikelihood"
_PERPLEXITY = "perplexity"
# What a task's configuration says of how answers are scored.
_SCORING = ("output_type", "metric_list", "filter_list", "process_results", "repeats")
_LIMITS = frozenset({"max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens"})
"""Names by which the harness takes the most tokens of an answer."""
_USUAL_LIMIT = 256
"""The harness's own where a task has none; answers may always be so long."""
_ROOM_FOR_OTHERS = 2
"""Times that an answer may be as long as the longest of the task's own."""
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
# What may be asked of an answer that is written; the last three change nothing where nothing is drawn.
_GREEDY = ("until", "max_gen_toks", "do_sample", "temperature", "top_p", "top_k")


class LoadedLM(HFLM):
    """A loaded model as the harness takes it, with the harness's own tokenization, truncation and batches.

    Whatever schedule it runs at the time is what is scored. ``advance`` is called with how many requests a forward has
    answered; ``writing`` is how many answers are written at once.
    """

    def __init__(self, model: Model, batch_size: int, advance: Callable[[int], None], writing: int) -> None:
        # the harness chooses a padding token, which must not stay with the model
        tokenizer = copy.deepcopy(model.tokenizer)
        narrow = model.dtype not in (torch.float32, torch.float64)
        with quietly():
            super().__init__(
                pretrained=model.hf,
                backend="causal",
                tokenizer=tokenizer,
                batch_size=batch_size,
                # Log-probabilities in half precision round away differences between answers.
                softmax_dtype="float32" if narrow else None,
            )
        self._advance, self._window, self._writing = advance, model.max_tokens, writing
        self.cut_off: dict[int, bool] = {}
        """Of the answers written last, by document: whether the limit of tokens ended one."""

    def loglikelihood(self, requests: Any, disable_tqdm: bool = True) -> Any:
        """Score as the harness does, without its progress bar."""
        return super().loglikelihood(requests, disable_tqdm=True)

    def generate_until(self, requests: Any, disable_tqdm: bool = True) -> Any:
        """Write answers as the harness asks for them, each as if its document stood alone (``Writer``)."""
        eos = self.tok_decode(self.eot_token_id, skip_special_tokens=False)
        questions = []
        cut = 0
        for request in requests:
            context, options = request.args
            settings = normalize_gen_kwargs(options, self.max_gen_toks)
            until = tuple(stop for stop in handle_stop_sequences(settings["until"], eos=eos) if stop)
            # An empty context has no token that the answer's first token could be predicted from.
            ids = self.tok_encode(context) or [self.prefix_token_id]
            room = len(ids) if self._window is None else self._window - settings["max_gen_toks"]
            cut += len(ids) > room
            questions.append(Question(tuple(ids[-room:]), until, settings["max_gen_toks"]))
        if cut:
            warn(f"{cut} of {len(questions)} contexts have lost their beginning, to leave room for answers.")
        answers = Writer(self.model, self.tokenizer, self._writing, self._advance).write(questions)
        self.cut_off = {}
        for request, answer in zip(requests, answers):
            self.cut_off[request.doc_id] = answer.is_cut_off or self.cut_off.get(request.doc_id, False)
        return [answer.text for answer in answers]

    def _model_call(self, inps: Tensor, attn_mask: Any = None, labels: Any = None) -> Tensor:
        with torch.no_grad():
            # nothing is continued, so a cache would only cost memory
            logits: Tensor = self.model(inps, use_cache=False).logits
        self._advance(len(inps))
        return logits


def prepare(
    benchmark: Benchmark, limit: int | None, window: int | None, tokenizer: Any, *, as_chat: bool = False
) -> None:
    """Build the requests, for a model with room for ``window`` tokens.

    Where a task says nothing of how long its answers may be, they may be twice as long as the longest of its own.

    Args:
        as_chat: put questions in the tokenizer's chat template, as the harness does.

    Raises:
        OptionError: answers are to be written in a way that cannot be.
        PromptError: a document that does not suit the task, or the template.
    """
    task = benchmark.task
    _build(benchmark, limit, tokenizer, as_chat)
    if task.OUTPUT_TYPE == WRITTEN:
        most = _limit_of(task, window, tokenizer)
        if most is not None:
            # in the task's configuration, from which the harness makes its requests again
            task.set_config("generation_kwargs", {**(task.config.generation_kwargs or {}), "max_gen_toks": most})
            _build(benchmark, limit, tokenizer, as_chat)
        # Thousands of requests share a few settings, and each is checked once.
        for options in {repr(instance.args[1]): instance.args[1] for instance in task.instances}.values():
            _require_greedy(benchmark.name, options, window)


def warn_of_few(benchmark: Benchmark, limit: int | None) -> None:
    """Say how many documents a task has, where more were allowed."""
    count = len(benchmark.task.eval_docs)
    if limit is not None and limit > count:
        warn(
            f"limit={limit} (--limit) is more than the {counted(count, 'document')} of {benchmark.name}: all are "
            "scored."
        )


def _build(benchmark: Benchmark, limit: int | None, tokenizer: Any, as_chat: bool) -> None:
    build_requests(
        benchmark,
        limit,
        apply_chat_template=as_chat,
        chat_template=partial(_in_template, tokenizer) if as_chat else None,
    )


def _in_template(tokenizer: Any, messages: Any, add_generation_prompt: bool = True) -> str:
    """Return a conversation in the tokenizer's template, as the harness's model has it."""
    return str(
        tokenizer.apply_chat_template(
            messages,
            tokenize=False,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=not add_generation_prompt,
        )
    )


def _limit_of(task: Any, window: int | None, tokenizer: Any) -> int | None:
    """Return the limit of tokens that follows from a task's own answers; None where it has one.

    The harness would take 256 for all, which cuts off worked answers of long tasks and says nothing of it.
    """
    if all(_LIMITS & instance.args[1].keys() for instance in task.instances):
        return None
    answers = [task.doc_to_target(instance.doc) for instance in task.instances]
    texts = {str(text) for answer in answers for text in (answer if isinstance(answer, list | tuple) else [answer])}
    longest = max(len(ask(tokenizer, text, add_special_tokens=False).input_ids) for text in texts)
    most = max(_USUAL_LIMIT, _ROOM_FOR_OTHERS * longest)
    if window is not None:
        question = max(len(ask(tokenizer, str(instance.args[0])).input_ids) for instance in task.instances)
        most = min(most, max(window - question, window // 2))
    return most


def prepared(benchmark: Benchmark, model: Model) -> tuple[int, dict[str, str]]:
    """Return how many requests there are, and hashes of whatever a result comes from next to weights and configuration.

    Returns:
        SHA-256 hashes of ``requests``: contexts and answers; ``documents``: the rows; ``answers``: what the task takes
        for right in each; ``scoring``: metrics and the readings of an answer; ``tokens``: what the tokenizer makes of
        the requests; ``writing``, where answers are written: the model's settings of that, and what ends an answer.
    """
    tokenizer = model.tokenizer
    requests = [list(map(str, instance.args)) for instance in benchmark.task.instances]
    texts = dict.fromkeys(arg for instance in benchmark.task.instances for arg in instance.args if isinstance(arg, str))
    config = benchmark.task.dump_config()
    documents = [instance.doc for instance in benchmark.task.instances if instance.idx == 0]
    sources = {
        "requests": requests,
        "documents": [dict(document) for document in documents],
        "answers": [benchmark.task.doc_to_target(document) for document in documents],
        "scoring": [config.get(entry) for entry in _SCORING],
        "tokens": [tokenizer.bos_token_id, tokenizer.eos_token_id, ask(tokenizer, list(texts)).input_ids],
    }
    if benchmark.written:
        sources["writing"] = [ends_of_answers(model.hf, tokenizer), settings_beyond_greedy(model.hf)]
    return len(requests), {name: _hash_of(source) for name, source in sources.items()}


def warn_of_repeats(benchmark: Benchmark) -> None:
    """Warn of documents that ask what another one asks: they count twice, and errors take them as further ones."""
    requests_by_document: dict[Any, list[str]] = {}
    for instance in benchmark.task.instances:
        requests_by_document.setdefault(instance.doc_id, []).append(repr(instance.args))
    repeats = len(requests_by_document) - len(set(map(tuple, requests_by_document.values())))
    if repeats:
        warn(
            f"{benchmark.name}: {repeats} of {len(requests_by_document)} documents repeat another one's requests. Each "
            "counts as a document of its own, so that standard errors are too small; leave them out."
        )


def _hash_of(source: object) -> str:
    # functions without a source are identified by their name; their place in memory is another one in every process
    text = _ADDRESS.sub("", json.dumps(source, sort_keys=True, default=str))
    return hashlib.sha256(text.encode()).hexdigest()


def _require_greedy(name: str, options: Mapping[str, Any], window: int | None) -> None:
    settings = normalize_gen_kwargs(dict(options))
    if settings["do_sample"]:
        raise OptionError(
            f"tasks: {name} draws its answers at random (do_sample or a temperature in its generation_kwargs), which "
            "would differ between schedules by chance alone; here answers are written greedily: set do_sample: false."
        )
    other = next((key for key in settings if key not in _GREEDY), None)
    if other is not None:
        raise OptionError(
            f"tasks: {name} asks for {other!r} in its generation_kwargs; allowed are until, max_gen_toks and "
            "do_sample: false, since answers are written greedily."
        )
    most = settings["max_gen_toks"]
    if most < 1 or (window is not None and most >= window):
        room = "1 or more" if window is None else f"1 to {window - 1}, since this model has room for {window} tokens"
        raise OptionError(
            f"tasks: {name} lets an answer have {most} tokens; allowed: {room}. Set max_gen_toks in the task's "
            "generation_kwargs."
        )


def score(lm: LoadedLM, benchmark: Benchmark, limit: int | None, *, as_chat: bool = False) -> dict[str, Any]:
    """Return what the harness measures, as plain JSON values.

    Returns:
        ``metrics``: name → value and standard error (None where none is known); ``documents``: for each its number,
        its own values of the metrics, the log-likelihood (nats) of every answer, and which answer is right; or the
        answer that was written, and whether the limit of tokens ended it (``cut_off``). Where an answer is read in
        several ways, a metric's name has the reading after a comma.
    """
    with quietly():
        measured = run_harness(
            lm=lm,
            task_dict={"tasks": {benchmark.name: benchmark.task}},
            limit=limit,
            bootstrap_iters=0,
            apply_chat_template=as_chat,
        )
    (samples,) = measured["samples"].values()
    (results,) = measured["results"].values()
    filters = list(dict.fromkeys(sample["filter"] for sample in samples))
    # a likelihood has one reading; of what a model writes a task may have several
    readings = filters if benchmark.task.OUTPUT_TYPE == WRITTEN else filters[:1]
    names = {
        (metric, f): f"{metric},{f}" if len(readings) > 1 else metric
        for f in readings
        for metric in samples[0]["metrics"]
    }
    documents = [
        _read_document(benchmark.task, sample, lm.cut_off) for sample in samples if sample["filter"] == readings[0]
    ]
    # The harness has a sample for each document and reading; here each document is one row.
    for reading in readings:
        for document, sample in zip(documents, [sample for sample in samples if sample["filter"] == reading]):
            for metric in sample["metrics"]:
                if isinstance(sample[metric], bool | int | float | np.number):
                    document[names[metric, reading]] = float(sample[metric])
    values = {name: results.get(f"{metric},{reading}") for (metric, reading), name in names.items()}
    if all(document["right"] is not None for document in documents):
        values[LOGLIKELIHOOD] = float(per_document({"documents": documents}, LOGLIKELIHOOD).mean())
    metrics = {
        name: {"value": float(value), "stderr": _stderr(name, value, per_document({"documents": documents}, name))}
        for name, value in values.items()
        if isinstance(value, int | float)
    }
    return {"metrics": metrics, "documents": documents}


def _read_document(task: Any, sample: Mapping[str, Any], cut_off: Mapping[int, bool]) -> dict[str, Any]:
    number = {"document": int(sample["doc_id"])}
    if task.OUTPUT_TYPE == WRITTEN:
        answer = {"answer": str(sample["resps"][0][0]), CUT_OFF: cut_off[sample["doc_id"]]}
        return {**number, **answer, "loglikelihoods": [], "right": None}
    loglikelihoods = [float(answers[0][0]) for answers in sample["resps"]]
    return {**number, "loglikelihoods": loglikelihoods, "right": _right_answer(task, sample, len(loglikelihoods))}


def _right_answer(task: Any, sample: Mapping[str, Any], answers: int) -> int | None:
    """Return the index of the right answer; None where a task has several or none."""
    # A task with a single answer (LAMBADA) scores the right one.
    target = 0 if answers == 1 else sample["target"]
    if isinstance(target, str):
        choices = task.doc_to_choice(sample["doc"])
        target = choices.index(target) if target in choices else None
    return int(target) if isinstance(target, int) and 0 <= target < answers else None


def _stderr(name: str, value: float, documents: FloatArray) -> float | None:
    """Return the standard error over documents of a mean, or of a perplexity by the delta method.

    None where a document has no value.
    """
    if len(documents) < 2 or np.isnan(documents).any():
        return None
    spread = float(documents.std(ddof=1) / math.sqrt(len(documents)))
    if name.partition(",")[0] == _PERPLEXITY:
        return value * spread
    # other aggregates (correlations, F1) have no standard error of this kind
    return spread if math.isclose(value, float(documents.mean()), rel_tol=1e-9, abs_tol=1e-12) else None
