"""Training by recipe: from nothing, or further from a checkpoint, into a folder that ``bathyscope.load`` takes.

An interrupted run goes on when the same call is made again. Everything a step needs follows from its number, so
that a run that was killed ends with the same weights as one that was not (on the same machine with the same
threads; under a limit in minutes the clock has a say).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase, TrainerCallback

from bathyscope.core.interrupts import noted
from bathyscope.errors import OptionError
from bathyscope.model import as_device, load
from bathyscope.surveying.engines import survey
from bathyscope_lab import checkpoint
from bathyscope_lab.batches import require_fit
from bathyscope_lab.data import Prepared, prepare
from bathyscope_lab.export import export, keep_step
from bathyscope_lab.folder import AFTER, BEFORE, RunFolder
from bathyscope_lab.model import build_model, context_of
from bathyscope_lab.progress import TrainingBar
from bathyscope_lab.recipe import Recipe
from bathyscope_lab.recipes import read_recipe
from bathyscope_lab.trainer import LabTrainer


@dataclass(frozen=True)
class Trained:
    """A finished run.

    Args:
        folder: the checkpoint; ``bathyscope.load`` takes it.
        summary: steps, tokens, minutes, parameters, losses and accuracies, versions.
    """

    folder: Path
    summary: dict[str, Any]


def train(
    recipe: Recipe | str | Path,
    out: str | Path,
    data: str | Path | None = None,
    device: str | None = None,
    progress: bool = True,
    callbacks: Sequence[TrainerCallback] = (),
) -> Trained:
    """Trains a model by a recipe, or goes on where an interrupted run stopped.

    Args:
        recipe: a recipe, the name of one that ships with the package, or a YAML file.
        out: folder of the checkpoint, and of the run until it is finished.
        data: folder that holds the texts; refused where problems of a task are trained on.
        device: ``cpu`` or ``cuda``; None = the first accelerator, else the CPU.
        progress: show a bar on standard error.
        callbacks: told of what happens, such as a ``bathyscope.training.DepthCallback``; they change nothing of what
            is trained.

    Raises:
        OptionError: the recipe cannot be carried out, or the extra is not installed; raised before training.
        PromptError: missing texts, or problems that do not fit the rows.
        ModelError: the checkpoint to go on from cannot be used, the device is not there, or training has diverged.
        StoreError: the folder belongs to another recipe or process, cannot be written, or all its checkpoints are
            damaged.
    """
    require_accelerate()
    recipe = recipe if isinstance(recipe, Recipe) else read_recipe(recipe)
    if data is not None and recipe.task is not None:
        raise OptionError(
            f"data={str(data)!r} (--data) is a folder of texts, and {recipe.name} trains on problems of the task "
            f"{recipe.task.name}, which are generated. Leave data out, or give a recipe of texts."
        )
    kind = as_device(device).type
    folder = RunFolder(Path(out), recipe)
    threads = torch.get_num_threads()
    with folder.opened():
        done = folder.summary()
        if done is None:
            try:
                torch.set_num_threads(recipe.threads or threads)
                done = _carried_out(folder, None if data is None else Path(data), kind, progress, callbacks)
            finally:
                torch.set_num_threads(threads)
        _measure(folder, AFTER, str(folder.path), kind, progress)
    return Trained(folder.path, done)


def require_accelerate() -> None:
    """Raises OptionError where the extra is not installed."""
    if importlib.util.find_spec("accelerate") is None:
        raise OptionError("Training needs accelerate, which is not installed: pip install 'bathyscope[lab]'.")


def _carried_out(
    folder: RunFolder, data: Path | None, device: str, progress: bool, watching: Sequence[TrainerCallback]
) -> dict[str, Any]:
    """The run's steps from where it is to its end."""
    recipe = folder.recipe
    newest = checkpoint.to_resume(folder.checkpoints)
    prepared = prepare(folder, data)
    model = _model(recipe, prepared)
    _measure(folder, BEFORE, str(recipe.base), device, progress)
    folder.forget_after(0 if newest is None else checkpoint.load_progress(newest)["step"])
    bar = TrainingBar(f"Training {recipe.name}") if progress else None
    callbacks: list[TrainerCallback] = [*([bar] if bar is not None else []), *watching]
    if recipe.saving.keep:
        callbacks.append(_Keeper(folder, model, prepared.tokenizer))
    trainer = LabTrainer(
        recipe, model, prepared.steps, prepared.held_out, folder.checkpoints, folder.log, device, callbacks
    )
    try:
        with noted() as heard:
            trainer.add_callback(_Ending(heard))
            trainer.train(resume_from_checkpoint=None if newest is None else str(newest))
        if heard:
            raise KeyboardInterrupt
    finally:
        if bar is not None:
            bar.close()
    came_to = {
        "steps": trainer.state.global_step,
        "tokens": int(trainer.state.num_input_tokens_seen),
        "minutes": trainer.minutes,
        "device": device,
    }
    return export(folder, model, prepared.tokenizer, prepared.final, came_to)


class _Ending(TrainerCallback):
    """Ends a training that is interrupted behind the step that it is in, which is kept.

    Args:
        heard: Ctrl-C or SIGTERM, as soon as there was one.
    """

    def __init__(self, heard: Sequence[int]) -> None:
        self._heard = heard

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._heard:
            control.should_save = control.should_training_stop = True


class _Keeper(TrainerCallback):
    """Keeps the weights of the steps that the recipe names."""

    def __init__(self, folder: RunFolder, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        self.folder, self.model, self.tokenizer = folder, model, tokenizer

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.on_step_end(args, state, control)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step in self.folder.recipe.saving.keep:
            keep_step(self.folder, self.model, self.tokenizer, state.global_step)


def _model(recipe: Recipe, prepared: Prepared) -> PreTrainedModel:
    """A new model, or the checkpoint to go on from, in float32 on the CPU."""
    if recipe.base is not None:
        model = load(recipe.base, dtype="float32", device="cpu").hf
    else:
        assert recipe.model is not None
        model = build_model(recipe.model, prepared.tokenizer, recipe.context, recipe.seed, recipe.scaled_writes)
    limit = context_of(model.config)
    for split, examples in prepared.final.problems.items():
        for index, example in enumerate(examples if limit is not None else ()):
            require_fit(example, int(limit or 0), f"{split} problem {index}")
    return model


def _measure(folder: RunFolder, name: str, model: str, device: str, progress: bool) -> None:
    """The recipe's survey of a checkpoint, as a run in a folder of its own; one that is there already is kept."""
    measure = folder.recipe.measure
    if measure is not None:
        loaded = load(model, dtype="float32", device=device)
        survey(
            loaded,
            measure.prompts,
            measures=measure.measures,
            out=folder.path / name,
            seed=folder.recipe.seed,
            progress=progress,
            **measure.options,
        )
