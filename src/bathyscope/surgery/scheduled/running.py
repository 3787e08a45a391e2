"""``scheduled``: the transformers model itself runs a schedule for as long as a context is open."""

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel

from bathyscope.core.calls import checked
from bathyscope.errors import ModelError, OptionError, did_you_mean
from bathyscope.model import Model, anatomy_of, loaded
from bathyscope.model.anatomy.anatomy import Anatomy, config_of
from bathyscope.model.anatomy.checks import check
from bathyscope.model.anatomy.gaps import gap, random_ids, tolerance
from bathyscope.model.anatomy.measured_gaps import Checks
from bathyscope.model.anatomy.mode import evaluating, running, runs_schedule
from bathyscope.model.anatomy.parallel import merge_contributions, refusal_of_schedule
from bathyscope.model.anatomy.recording import CACHE_NAMES
from bathyscope.model.anatomy.replay import State
from bathyscope.model.anatomy.sites import submodule
from bathyscope.schedule import Schedule, Scheduling
from bathyscope.surgery.checkpoint.folder import write_export
from bathyscope.surgery.checkpoint.proof import require_no_loops
from bathyscope.surgery.checkpoint.source import source_of
from bathyscope.surgery.options import Arguments
from bathyscope.surgery.order.chain import Chain
from bathyscope.surgery.order.model_of_plan import require_model_of

_SAVING = ("save_pretrained", "push_to_hub")
_RECORDED = {"output_hidden_states": "hidden_states", "output_attentions": "attentions"}


@checked
@contextmanager
def scheduled(
    model: Model | PreTrainedModel, schedule: Schedule | str, arguments: Arguments = "block"
) -> Iterator[PreTrainedModel]:
    """Run a model's blocks in the order of a schedule until the context ends.

    ``forward`` and ``generate``, with and without a cache, behave as those of a model built that way. Weights,
    configuration and the list of blocks are never changed, so that nothing is left behind, also after an error.
    A short forward is compared with replayed blocks before the context is entered. Source: lad2024 (drop, swap,
    repeat). Inside, ``save_pretrained`` writes the model as it runs (see ``export``); it cannot be surveyed there.

    Args:
        model: a loaded bathyscope model, or a transformers model.
        schedule: the order, or its text such as ``"drop:5"``, ``"swap:3"``, ``"repeat:8+5"``.
        arguments: masks, rotary tables and per-block inputs follow the ``"block"``, so that a swapped
            sliding-window block keeps its window; or the ``"slot"``, which is editing the list of blocks alone.

    Raises:
        OptionError: not a model; a schedule that cannot be read or is made for another number of blocks; an
            unknown ``arguments``, or ``"slot"`` where slots and blocks do not fit.
        ModelError: the model already runs a schedule; a plan of another model; a block would run before one whose
            keys and values it takes; the check before entry fails (with the measured gap).

    Example:
        >>> with bathyscope.scheduled(model, "drop:1") as hf:
        ...     hf(model.tokenizer("Once upon", return_tensors="pt").input_ids).logits.shape[-1]
        4096
    """
    anatomy = model.anatomy if isinstance(model, Model) else _resolve_anatomy(model)
    hf, chosen = _check_schedule(anatomy, schedule, arguments)
    if isinstance(schedule, Scheduling):
        # a model in memory is loaded for its identity alone
        require_model_of(schedule, loaded(model))
    _require_sources(anatomy, model.checks if isinstance(model, Model) else _run_checks(anatomy), chosen)
    # The blocks' own modules are shared, so that nothing is copied and nothing has to be undone in them.
    chain = Chain(chosen, anatomy.blocks, anatomy.returns, arguments, anatomy.dtype, anatomy.loops, anatomy.streams)
    with evaluating(hf):
        expected = expected_logits(anatomy, chosen, arguments)
    with chain.in_place(anatomy) as owner:
        watch = owner.register_forward_pre_hook(partial(_adjust_forward, chain), with_kwargs=True)
        try:
            with evaluating(hf):
                require_parity(hf, expected, chain, chosen)
            cached = not chain.refuses_cache
            with running(hf, str(chosen), cached=cached), _saved_as_it_runs(anatomy, chosen, arguments):
                yield hf
        finally:
            watch.remove()


def require_runnable(model: Model, schedule: Schedule | str, arguments: Arguments) -> None:
    """Refuse what ``scheduled`` refuses without a forward."""
    _, chosen = _check_schedule(model.anatomy, schedule, arguments)
    _require_sources(model.anatomy, model.checks, chosen)


def _check_schedule(anatomy: Anatomy, schedule: Schedule | str, arguments: str) -> tuple[PreTrainedModel, Schedule]:
    if arguments not in get_args(Arguments):
        raise OptionError(
            f"arguments={arguments!r} is unknown.{did_you_mean(str(arguments), get_args(Arguments))} "
            "Allowed: block, slot."
        )
    chosen = Schedule.of(schedule, anatomy.n_blocks, () if anatomy.cycle is None else anatomy.cycle.runs)
    _require_no_other(anatomy.model)
    if anatomy.streams is not None:
        anatomy.streams.require_exchangeable()
    for path in anatomy.family.block_lists:
        if not isinstance(submodule(anatomy.model, path), nn.ModuleList):
            raise ModelError(f"{anatomy.family.name}: {path} is no ModuleList, so it cannot be exchanged.")
    if arguments == "slot":
        if anatomy.loops is not None:
            raise OptionError(
                "arguments='slot' is editing a list of blocks, and the list of a looped model has no place for each "
                "run; use arguments='block'."
            )
        _require_slots(anatomy.model, chosen)
    return anatomy.model, chosen  # type: ignore[return-value]


def _resolve_anatomy(hf: PreTrainedModel) -> Anatomy:
    if not isinstance(hf, PreTrainedModel):
        kind = type(hf).__name__
        raise OptionError(f"scheduled() takes what bathyscope.load() gives, or a transformers model; {kind} given.")
    _require_no_other(hf)
    with evaluating(hf):
        return anatomy_of(hf)


def _require_no_other(hf: nn.Module) -> None:
    if runs_schedule(hf):
        raise ModelError(
            "This model already runs a schedule; leave that context first. Changes are combined in one schedule, "
            "for example 'drop:3,swap:1'."
        )


@contextmanager
def _saved_as_it_runs(anatomy: Anatomy, schedule: Schedule, arguments: str) -> Iterator[None]:
    """Have ``save_pretrained`` write the model that runs inside; refuse everything else that saves."""
    hf: PreTrainedModel = anatomy.model  # type: ignore[assignment]

    def refuse(*_: Any, **__: Any) -> None:
        raise ModelError(
            "Inside scheduled() only the whole model can be saved, by save_pretrained(FOLDER) and with "
            "arguments='block': other files would hold every block in the model's own order. Leave the context first "
            "to save it unchanged, or use bathyscope.export."
        )

    def save(save_directory: str | Path, *positional: Any, **options: Any) -> None:
        if positional or options or arguments != "block":
            refuse()
        require_no_loops(anatomy)
        source = replace(source_of(hf), family=anatomy.family)
        write_export(source, schedule, Path(save_directory))

    savers = [(module, name) for module in hf.modules() if isinstance(module, PreTrainedModel) for name in _SAVING]
    for module, name in savers:
        module.__dict__[name] = save if module is hf and name == "save_pretrained" else refuse
    try:
        yield
    finally:
        for module, name in savers:
            module.__dict__.pop(name, None)


@torch.no_grad()
def _run_checks(anatomy: Anatomy) -> Checks:
    with evaluating(anatomy.model):
        return check(anatomy)


def _require_sources(anatomy: Anatomy, checks: Checks, schedule: Schedule) -> None:
    refusal = refusal_of_schedule(anatomy, checks, schedule)
    if refusal:
        raise ModelError(f"This schedule ({schedule}) cannot run: in this {anatomy.family.name} model {refusal}.")


def _require_slots(hf: nn.Module, schedule: Schedule) -> None:
    """Refuse slots without a place in the model made for a block of the same kind."""
    if len(schedule) > schedule.n_blocks:
        raise OptionError(
            f"arguments='slot' needs no more slots than the model has blocks; given: {schedule}, "
            f"{len(schedule)} slots. Repeats are run with arguments='block'."
        )
    # The kinds of cache layers say how each place of the model mixes tokens.
    kinds: Sequence[Any] = DynamicCache(config=config_of(hf)).layers
    for slot, block in enumerate(schedule):
        if kinds and _mixer_kind(kinds[slot]) != _mixer_kind(kinds[block]):
            raise OptionError(
                f"arguments='slot' would run block {block} with the arguments of block {slot}, which mixes tokens in "
                f"another way ({_mixer_kind(kinds[block])}, {_mixer_kind(kinds[slot])}); use arguments='block'."
            )


def _mixer_kind(layer: Any) -> str:
    """Return the kind of mixer a cache layer belongs to; windows and full attention are one kind."""
    return type(layer).__name__.removeprefix("Dynamic").replace("SlidingWindowLayer", "Layer")


def _adjust_forward(chain: Chain, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Keep a model's loop from doing what holds only for the standard order.

    Raises:
        ModelError: states or attention are asked for that this loop would collect from the stand-ins; it would go on
            from a cache that does not fit.
    """
    kwargs = chain.without_wrong_caches(args, kwargs)
    by_hooks = getattr(module, "_can_record_outputs", None) or {}
    for flag, recorded in _RECORDED.items():
        argument = kwargs.get(flag)
        is_recorded = getattr(module.config, flag, False) if argument is None else argument
        if is_recorded and recorded not in by_hooks:
            raise ModelError(
                f"{flag}=True is not available under a schedule: {type(module).__name__} collects it in its own loop "
                "over the blocks. Measure it with bathyscope.survey, outside scheduled()."
            )
    if "logits_to_keep" in kwargs:
        # Gemma 4 hands only the last tokens to blocks without keys of their own, wherever they stand
        kwargs = {**kwargs, "logits_to_keep": 0}
    return args, kwargs


# Tokens that are run one at a time on a cache.
_CONTINUED = 2
_RAISED = (RuntimeError, TypeError, AttributeError, ValueError, LookupError)
"""What families raise when they are given a cache that does not fit."""
# What counts as equal there: recurrent states sum in another order token by token than over whole prompts.
_STEPWISE = 1e-3


@torch.no_grad()
def expected_logits(anatomy: Anatomy, schedule: Schedule, arguments: Arguments) -> Tensor:
    """Return logits [2, T, V] of a short random batch, from blocks replayed one at a time."""
    ids = random_ids(anatomy.model)
    replay = anatomy.replay(ids)
    stream = replay.recording.resid0_BTD
    state: State = {}
    slots = iter(range(len(schedule)))
    for stage in schedule.stages:
        sources = [block if arguments == "block" else slot for block, slot in zip(stage, slots)]
        outputs = [
            replay.run(anatomy.blocks[block], source, stream, state=state) for block, source in zip(stage, sources)
        ]
        stream = merge_contributions(stream, outputs)
    return anatomy.readout(stream)


@torch.no_grad()
def require_parity(hf: nn.Module, expected: Tensor, chain: Chain, schedule: Schedule) -> None:
    """Compare with the expected logits; where only runs on a cache differ, the chain refuses caches from then on.

    Raises:
        ModelError: the forward differs from the replayed blocks, with the measured gap.
    """
    parameter = next(p for p in hf.parameters() if p.is_floating_point())
    ids = random_ids(hf)
    allowed = tolerance(parameter.dtype)
    logits = hf(input_ids=ids, use_cache=False, return_dict=True).logits
    apart = gap(logits, expected)
    if not apart <= allowed:
        raise ModelError(
            f"{type(hf).__name__} does not run this schedule ({schedule}) rightly: its logits differ from those of "
            f"replayed blocks by {apart:.1e} of the largest (allowed {allowed:.0e})."
        )
    continued = _logits_on_cache(hf, ids)
    if isinstance(continued, str):
        chain.refuses_cache = f"This model cannot go on from a cache under a schedule: {continued.rstrip('.')}."
    elif not (apart := gap(continued, logits)) <= max(allowed, _STEPWISE):
        chain.refuses_cache = (
            f"Going on from a cache changes this model's logits under a schedule by {apart:.1e} of the largest "
            f"(allowed {max(allowed, _STEPWISE):.0e})."
        )


def _reason_of_own_state(hf: nn.Module, ids_BT: Tensor) -> str:
    """Return why a family is refused that keeps a state of its own kind, which no cache of the library's is; or ""."""
    try:
        hf(input_ids=ids_BT, use_cache=True, return_dict=True)
    except ModelError as error:
        reason = str(error).partition(";")[0]
        return reason[:1].lower() + reason[1:]
    except _RAISED:
        return ""
    return ""


def _logits_on_cache(hf: nn.Module, ids_BT: Tensor) -> Tensor | str:
    """Return logits [2, T, V] with the last tokens run one at a time; or why that cannot be done."""
    name = next((name for name in CACHE_NAMES if name in inspect.signature(hf.forward).parameters), None)
    if name is None:
        return _reason_of_own_state(hf, ids_BT) or "it takes no cache of the library's kind"
    cache: dict[str, Any] = {name: DynamicCache(config=hf.config)}  # type: ignore[arg-type]
    pieces = [ids_BT[:, :-_CONTINUED], *ids_BT[:, -_CONTINUED:].split(1, dim=1)]
    outs = []
    try:
        for piece in pieces:
            outs.append(hf(input_ids=piece, use_cache=True, return_dict=True, **cache))
    except _RAISED as error:
        # whatever a family raises when it goes on from a cache answers the question
        own_state = "" if outs else _reason_of_own_state(hf, pieces[0])
        return own_state or f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return torch.cat([out.logits for out in outs], dim=1)
