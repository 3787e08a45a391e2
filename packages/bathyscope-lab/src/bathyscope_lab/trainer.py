"""The library's trainer, told to read batches by step, to keep no pickles, and to log what a run's folder shows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sized
from pathlib import Path
from typing import Any, cast

import torch
from torch.utils.data import Dataset, SequentialSampler
from transformers import PreTrainedModel, PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from bathyscope.errors import OptionError
from bathyscope_lab import checkpoint
from bathyscope_lab.batches import Batch
from bathyscope_lab.evaluate import HeldOut
from bathyscope_lab.recipe import Optimisation, Recipe

Log = Callable[[dict[str, Any]], None]


def learning_rate(options: Optimisation, step: int, share: float) -> float:
    """The rate of step 0, 1, … as a share of the peak, at a share of the run between 0 and 1."""
    floor = options.final_ratio
    rise = (step + 1) / options.warmup_steps if options.warmup_steps > 0 else 1.0
    if options.schedule == "cosine":
        fall = floor + (1 - floor) * (1 + math.cos(math.pi * share)) / 2
    else:
        fall = floor + (1 - floor) * (1 - share) / options.decay if options.decay > 0 else 1.0
    return min(1.0, rise, fall)


class LabTrainer(Trainer):
    """Trains by a recipe.

    Args:
        recipe: what is carried out.
        model: in float32; moved to the device.
        steps: item i is the whole batch of step i.
        held_out: what evaluations look at.
        folder: of the checkpoints.
        log: takes a record for every step and every evaluation.
        device: ``cpu`` or ``cuda``.
        callbacks: told of what happens, as the library tells them.
    """

    def __init__(
        self,
        recipe: Recipe,
        model: PreTrainedModel,
        steps: Dataset[Batch],
        held_out: HeldOut,
        folder: Path,
        log: Log,
        device: str,
        callbacks: list[TrainerCallback],
    ) -> None:
        self.recipe, self.held_out, self.folder, self._log = recipe, held_out, folder, log
        self._minutes_before, self._began = 0.0, time.monotonic()
        self._penalty = 0.0
        super().__init__(
            model=model,
            args=_arguments(recipe, folder, device),
            train_dataset=steps,
            # the library wants one before it evaluates; evaluate() below looks at what is held out
            eval_dataset=steps,
            data_collator=lambda items: items[0],
            callbacks=callbacks,
        )
        self.remove_callback(PrinterCallback)

    @property
    def minutes(self) -> float:
        """How long the run has taken, over all its sittings."""
        return self._minutes_before + (time.monotonic() - self._began) / 60

    def share(self, step: int) -> float:
        """How much of the run is done, 0 to 1, by steps or by the clock, whichever is further."""
        done = step / self.recipe.total_steps
        limit = self.recipe.budget.minutes
        return min(1.0, done if limit is None else max(done, self.minutes / limit))

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """The recipe's rates; the clock's share counts where there is a limit in minutes."""
        options = self.recipe.optimisation
        self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(
            cast(torch.optim.Optimizer, optimizer or self.optimizer),
            lambda step: learning_rate(options, step, self.share(step)),
        )
        self._created_lr_scheduler = True
        return self.lr_scheduler

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """Losses and accuracies on what is held out."""
        assert isinstance(self.model, PreTrainedModel)
        with self.accelerator.autocast():
            scores = self.held_out.scores(self.model)
        self._require_finite({f"held-out {name.replace('_', ' ')}": value for name, value in scores.items()})
        self._log({"step": self.state.global_step, "held_out": scores})
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, scores)
        return scores

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, torch.Tensor | Any],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> Any:
        """The library's loss; what of it is no cross-entropy, such as MoEUT's regulariser, is kept for the record."""
        loss, outputs = super().compute_loss(model, inputs, True, num_items_in_batch)
        penalty = outputs.get("aux_loss")
        if penalty is not None:
            assert isinstance(self.model, PreTrainedModel)
            # the library's mixtures of experts weigh what they give, the laboratory's give what they add
            self._penalty = float(penalty.detach()) * getattr(self.model.config, "router_aux_loss_coef", 1.0)
        return (loss, outputs) if return_outputs else loss

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """A record of one step; the library's own summary at the end of a run is left out."""
        step = self.state.global_step
        depths = {name: value for name, value in logs.items() if name.startswith("depth/")}
        if depths:
            # what bathyscope.training.DepthCallback says of the model at this step
            self._log({"step": step, **depths})
        if "loss" not in logs:
            return
        # a step whose gradient is not finite has a finite loss, and leaves weights that are not
        self._require_finite({"loss": logs["loss"], "gradient norm": float(logs["grad_norm"])})
        record = {
            "step": step,
            "tokens": int(self.state.num_input_tokens_seen),
            "loss": logs["loss"] - self._penalty,
            "penalty": self._penalty,
            "learning_rate": logs["learning_rate"],
            "gradient_norm": float(logs["grad_norm"]),
        }
        self._log(record)
        self.control = self.callback_handler.on_log(self.args, self.state, self.control, record)
        if self.share(step) >= 1.0 and step < self.state.max_steps:
            self.control.should_training_stop = self.control.should_evaluate = self.control.should_save = True

    def _require_finite(self, values: Mapping[str, float]) -> None:
        """Raises ModelError where a value is not finite; it is not logged, and the step not saved."""
        for name, value in values.items():
            if not math.isfinite(value):
                raise checkpoint.diverged(f"The {name} is {value} at step {self.state.global_step}", self.folder)

    def _track_num_input_tokens(self, inputs: Batch) -> None:
        counted = inputs["attention_mask"].sum() if "attention_mask" in inputs else inputs["input_ids"].numel()
        self.state.num_input_tokens_seen += int(counted)

    def _get_train_sampler(self, train_dataset: Any = None) -> SequentialSampler:
        return SequentialSampler(cast(Sized, train_dataset if train_dataset is not None else self.train_dataset))

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        assert self.model is not None
        assert self.lr_scheduler is not None
        bad = checkpoint.not_finite(self.model)
        if bad is not None:
            raise checkpoint.diverged(f"{bad} is not finite after step {self.state.global_step}", self.folder)
        progress = {
            "recipe": self.recipe.hash(),
            "step": self.state.global_step,
            "minutes": self.minutes,
            "rates": self.lr_scheduler.get_last_lr(),
        }
        checkpoint.save(self.folder, self.state.global_step, self.model, self.optimizer, progress, self.state)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        path = Path(resume_from_checkpoint)
        assert self.model is not None
        checkpoint.load_weights(path, self.model)
        self._minutes_before, self._began = checkpoint.load_progress(path)["minutes"], time.monotonic()

    def _load_optimizer_and_scheduler(self, checkpoint_folder: str | None) -> None:
        if checkpoint_folder is None:
            return
        assert self.optimizer is not None
        assert self.lr_scheduler is not None
        checkpoint.load_optimizer(Path(checkpoint_folder), self.optimizer)
        progress = checkpoint.load_progress(Path(checkpoint_folder))
        self.lr_scheduler.last_epoch = progress["step"]
        self.lr_scheduler._last_lr = progress["rates"]
        for group, rate in zip(self.optimizer.param_groups, progress["rates"]):
            group["lr"] = rate

    def _load_rng_state(self, checkpoint_folder: str | None) -> None:
        if checkpoint_folder is not None:
            checkpoint.load_random_states(Path(checkpoint_folder))


def _arguments(recipe: Recipe, folder: Path, device: str) -> TrainingArguments:
    """The recipe in the library's words."""
    options = recipe.optimisation
    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=recipe.total_steps,
        # a step's batch is one item, made whole by the data set
        per_device_train_batch_size=1,
        learning_rate=options.learning_rate,
        adam_beta1=options.beta1,
        adam_beta2=options.beta2,
        weight_decay=options.weight_decay,
        max_grad_norm=options.clip,
        bf16=recipe.precision == "bfloat16",
        torch_compile=recipe.compile,
        seed=recipe.seed,
        use_cpu=device == "cpu",
        logging_steps=1,
        logging_nan_inf_filter=False,
        eval_strategy="steps",
        eval_steps=recipe.evaluation.every,
        save_strategy="steps",
        save_steps=recipe.saving.every,
        remove_unused_columns=False,
        dataloader_pin_memory=device != "cpu",
        disable_tqdm=True,
        report_to="none",
    )
    if arguments.world_size > 1:
        raise OptionError("The laboratory trains in one process, on one device; start it without a launcher.")
    arguments._n_gpu = min(arguments.n_gpu, 1)  # batches are not split over devices
    return arguments
