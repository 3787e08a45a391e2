"""``survey_states``: what stored states of a served model can tell, measured by the code that surveys a model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import torch

from bathyscope.core.calls import takes
from bathyscope.core.common_options import ChatForm, Progress, ResumeCommand
from bathyscope.core.interrupts import ended_as_interrupted
from bathyscope.core.paths import require_writable
from bathyscope.core.text import elided
from bathyscope.errors import ModelError, OptionError, PromptError, describe_value, warn
from bathyscope.measures.declaration import Declaration
from bathyscope.measures.registry import DEFAULT, MEASURES, expand
from bathyscope.model import Model, tokenized
from bathyscope.model.states.folder import StatesFolder, StoredPrompt
from bathyscope.model.states.opening import open_states
from bathyscope.options import items_of
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.prompts.prompts import Prompts
from bathyscope.prompts.source import Source, require_there
from bathyscope.runs.folder import folder_path, refuse_foreign
from bathyscope.runs.manifest import RUN
from bathyscope.runs.run import Run
from bathyscope.surveying.asking import Measures, Survey
from bathyscope.surveying.execution import carry_out
from bathyscope.surveying.options import StatesOptions
from bathyscope.wavefront.calls import default_tokens

_BATCH_TOKENS: Final = 4096
_STATE_BYTES: Final = 16 << 20
"""Of the stored states of a batch, unless one prompt has more."""
_TEXTS_FROM: Final = "Give the texts that were sent to the server, as it read them, or leave prompts out."


@takes(StatesOptions)
def survey_states(
    states: str | Path,
    head: str | Path,
    prompts: Source | Prompts | None = None,
    measures: Measures = None,
    out: str | Path | None = None,
    seed: int | None = None,
    *,
    boundaries: Sequence[int] | None = None,
    dtype: str | torch.dtype | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    batch_tokens: int | None = None,
    add_special_tokens: bool = True,
    chat: ChatForm = False,
    keep_text: bool = True,
    progress: Progress = True,
    command: ResumeCommand = None,
    **options: Any,
) -> Run:
    """Measure stored states of a model that was served elsewhere, such as by vLLM.

    The states are read in place of running blocks, and observed by the same code as those of a model in memory: the
    results are equal. What needs the blocks is refused by name. The files are read one after another.

    Args:
        ...: the options of ``StatesOptions``.
        prompts: of the served requests, as for ``survey``, which adds names, answers and labels; each must have the
            token ids of a stored one. None = all that are stored, by the names of their files.
        measures: names, or None for those of ``residual``, ``lens``, ``tokens`` and ``effective_depth`` that the stored
            boundaries allow; ``"all"`` = all that they allow.
        dtype: A torch dtype is allowed too.
        **options: a measure's options under its name, as a dict or its options class.

    Returns:
        The run; ``run.identity.states`` says which files and boundaries it is of.

    Raises:
        ModelError: files or a head that cannot be read; states that are normed already, of other boundaries or of
            another model than they are said to be of; NaN in them.
        OptionError: a measure that cannot be told of these states, with the reason.
        PromptError: prompts that are not among the stored ones.
        StoreError: the folder belongs to another configuration, is altered, or cannot be written.

    Example:
        >>> run = bathyscope.survey_states("states", head="model")
        >>> run["lens"].kl_lens_final.dims
        ('prompt', 'boundary')
        >>> run.identity.states["boundaries"]
        [0, 1, 2, 3, 4]
    """
    folder = None if out is None else folder_path(out, "out")
    # mistyped measures and options are refused before anything is read
    expand(_requested(measures))
    if prompts is None:
        _refuse_forms_of_prompts(add_special_tokens, chat)
    else:
        require_there(prompts)
    if folder is not None:
        refuse_foreign(folder, RUN)
        require_writable(folder, holds="a run")
    with ended_as_interrupted():
        model = open_states(
            states,
            head,
            boundaries=boundaries,
            dtype=dtype,
            revision=revision,
            trust_remote_code=trust_remote_code,
            progress=progress,
        )
        assert model.states is not None
        chosen = possible_measures(measures, model)
        request = Survey(
            measures=chosen,
            seed=seed,
            batch_tokens=batch_tokens or _BATCH_TOKENS,
            call_tokens=_tokens_at_once(model),
            beyond_context=True,
            keep_text=keep_text,
            options=options,
            without=frozenset(name for name, declaration in MEASURES.items() if lacking(declaration, model)),
        )
        if prompts is None:
            read = stored_prompts(model)
        else:
            read = tokenized(
                model,
                prompts,
                seed=seed or 0,
                beyond_context=True,
                add_special_tokens=add_special_tokens,
                chat=chat,
            )
            _require_stored(model, read)
        return carry_out(request.plan(model, read), folder, command, progress)


def _refuse_forms_of_prompts(add_special_tokens: bool, chat: ChatForm) -> None:
    """Refuse ways of writing prompts where none are given, since stored token ids would stay as they are."""
    for name, value, default in (("chat", chat, False), ("add_special_tokens", add_special_tokens, True)):
        if value is not default:  # an array has no truth value
            raise OptionError(
                f"{name}={describe_value(value)} is of prompts, and none are given; stored token ids stay as they are. "
                f"Give prompts, or leave {name} out."
            )


def lacking(declaration: Declaration, model: Model) -> str | None:
    """Return why a measure cannot be told of stored states; None where it can."""
    assert model.states is not None
    name, boundaries, last = declaration.name, model.states.boundaries, model.n_blocks
    if declaration.needs == "blocks":
        return f"{name} needs the blocks; these are states"
    if declaration.needs == "last boundary" and boundaries[-1] != last:
        return f"{name} needs boundary {last}, behind the last block, and it is not stored"
    if declaration.needs == "all boundaries" and len(boundaries) <= last:
        return f"{name} needs all boundaries 0 to {last}, and {len(boundaries)} are stored"
    return None


def possible_measures(measures: Measures, model: Model) -> list[Any]:
    """Return the measures that were asked for; what nobody names is left out where it cannot be told.

    Raises:
        OptionError: one that was named cannot be told of these states.
    """
    requested = _requested(measures)
    named = [item for item in requested if item != "all"]
    declarations = expand(named, without=MEASURES) if named else {}
    reasons = {name: reason for name, each in declarations.items() if (reason := lacking(each, model)) is not None}
    if reasons and measures is not None:
        allowed = [name for name, declaration in MEASURES.items() if lacking(declaration, model) is None]
        raise OptionError(
            f"{'; '.join(reasons.values())}. Leave {', '.join(reasons)} out, or survey the model itself; of these "
            f"states there are {', '.join(allowed)}."
        )
    if "all" in requested:
        every = {name: (each.needs, lacking(each, model)) for name, each in expand(["all"]).items()}
        of_blocks = [name for name, (needs, reason) in every.items() if reason is not None and needs == "blocks"]
        others = [reason for needs, reason in every.values() if reason is not None and needs != "blocks"]
        warn(
            "; ".join([f"Left out, since they need the blocks and these are states: {', '.join(of_blocks)}", *others])
            + "."
        )
    return [item for item in requested if not isinstance(item, str) or item not in reasons]


def _requested(measures: Measures) -> list[Any]:
    if measures is None:
        return [name for name in DEFAULT if MEASURES[name].needs != "blocks"]
    return list(items_of(measures)) if isinstance(measures, str | Sequence) else [measures]


def _tokens_at_once(model: Model) -> int:
    """Return the tokens of a batch whose states fit into the room for them."""
    assert model.states is not None
    token_bytes = model.states.count * model.states.width * model.dtype.itemsize
    return max(1, min(default_tokens(model.device), _STATE_BYTES // token_bytes))


def stored_prompts(model: Model) -> Prompts:
    """Return the prompts of stored states, with the words of the head's tokenizer where it has one."""
    assert model.states is not None
    dataset = model.states.folder.name or str(model.states.folder)
    items = tuple(TokenizedPrompt(prompt.name, prompt.ids, dataset=dataset) for prompt in model.states.prompts)
    try:
        tokenizer = model.tokenizer
    # a folder of a head alone has none, and ids can be measured without
    except ModelError:
        tokenizer = None
    return Prompts(items, dataset, tokenizer)


def _require_stored(model: Model, prompts: Prompts) -> None:
    """Refuse prompts whose states are not stored, with the token at which the nearest stored one parts from them."""
    assert model.states is not None
    for number, prompt in enumerate(prompts):
        if model.states.find(prompt.ids) is None:
            raise PromptError(_parting(model.states, prompts, number))


def _parting(states: StatesFolder, prompts: Prompts, number: int) -> str:
    prompt = prompts[number]
    nearest = max(states.prompts, key=lambda stored: _shared(stored, prompt.ids))
    shared = _shared(nearest, prompt.ids)
    where = f"The prompt {prompt.id!r} is not among the {len(states.prompts)} stored ones. The nearest, {nearest.name},"
    if shared == min(len(prompt.ids), len(nearest.ids)):
        return (
            f"{where} has {len(nearest.ids)} tokens, and the prompt {len(prompt.ids)}: special tokens or a chat "
            f"template were added to one of them, or its answer is missing. {_TEXTS_FROM}"
        )
    piece = elided(repr(prompts.pieces(number)[shared]), 30)
    return (
        f"{where} has the token id {nearest.ids[shared]} at place {shared}, and the prompt {prompt.ids[shared]} "
        f"({piece}): another text, tokenizer or chat template. {_TEXTS_FROM}"
    )


def _shared(stored: StoredPrompt, ids: Sequence[int]) -> int:
    """Return how many first tokens two prompts share."""
    pairs = zip(stored.ids, ids)
    return next(
        (place for place, (stored_id, prompt_id) in enumerate(pairs) if stored_id != prompt_id),
        min(len(stored.ids), len(ids)),
    )
