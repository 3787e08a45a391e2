"""A training whose weights are scattered over processes by ``fully_shard``, watched or not."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors.torch import save_file
from support.trainings import PROMPTS, STEPS, Rows, model
from transformers import Trainer, TrainerCallback, TrainingArguments

import bathyscope
from bathyscope.errors import BathyscopeError
from bathyscope.training import DepthCallback


def sharded(hf: Any, is_mixed: bool = False) -> Any:
    """Scatter every block, and then the rest, over all processes; mixed: of which each computes in bfloat16."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    mesh = init_device_mesh("cpu", (int(os.environ["WORLD_SIZE"]),))
    precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16 if is_mixed else None)
    for block in hf.model.layers:
        fully_shard(block, mesh=mesh, mp_policy=precision)
    return fully_shard(hf, mesh=mesh, mp_policy=precision)


def save(hf: Any, losses: list[float], out: str) -> None:
    """Write the whole weights and the losses of this process."""
    for module in hf.modules():
        if hasattr(module, "reshard"):
            module.reshard()  # what the last forward has left gathered is rounded
    tensors = {name: _whole(value.detach()).clone() for name, value in hf.named_parameters()}
    # a process that ends while another still gathers from it would take that one down
    dist.barrier()
    dist.destroy_process_group()
    rank = os.environ["RANK"]
    save_file(tensors, Path(f"{out}-{rank}.safetensors"))
    Path(f"{out}-{rank}.json").write_text(json.dumps([losses, torch.random.get_rng_state().tolist()]))


def train(out: str, course: str, family: str, is_mixed: bool) -> int:
    """Train in a loop of one's own, a forward without a backward before each look among it."""
    hf = sharded(model(family), is_mixed)
    return _run_loop(hf, torch.optim.AdamW(hf.parameters(), lr=1e-2), torch.Tensor.backward, out, course)


def train_with_accelerate(out: str, course: str) -> int:
    """Train in the same loop on what accelerate makes of a model and its optimiser under its FSDP."""
    from accelerate import Accelerator, FullyShardedDataParallelPlugin
    from accelerate.state import AcceleratorState
    from accelerate.utils import DistributedType

    # accelerate asks for an address, though the processes have met already
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="1", LOCAL_WORLD_SIZE=os.environ["WORLD_SIZE"])
    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2,
        auto_wrap_policy="transformer_based_wrap",
        transformer_cls_names_to_wrap=["LlamaDecoderLayer"],
    )
    accelerator = Accelerator(cpu=True)
    # it takes its own FSDP for accelerators alone, and the code that scatters a model runs on processors too
    AcceleratorState._shared_state |= {"fsdp_plugin": plugin, "distributed_type": DistributedType.FSDP}
    hf = model("llama_tied")
    hf, optimiser = accelerator.prepare(hf, torch.optim.AdamW(hf.parameters(), lr=1e-2))
    assert type(hf).__name__.startswith("FSDP"), "not sharded"
    return _run_loop(hf, optimiser, accelerator.backward, out, course)


def _run_loop(hf: Any, optimiser: Any, backward: Callable[[torch.Tensor], None], out: str, course: str) -> int:
    warnings.simplefilter("ignore")
    rank = int(os.environ["RANK"])
    watch = bathyscope.watch(hf, PROMPTS, course, every=2, step=0, progress=False) if course else None
    rows, losses = Rows(), []
    for step in range(STEPS + 1):
        if watch is not None:
            watch(step)
        ids = torch.tensor([rows[4 * step + 2 * rank + row]["input_ids"] for row in range(2)])
        loss = hf(input_ids=ids, labels=ids).loss
        losses.append(float(loss))
        backward(loss)
        optimiser.step()
        optimiser.zero_grad()
        with torch.no_grad():  # which leaves the weights of the root gathered
            hf(input_ids=ids)
    if watch is not None:
        watch.saved(STEPS + 1)
        assert watch.failed == 0, "a survey failed"
    save(hf, losses, out)
    return 0


class ShardedTrainer(Trainer):
    """A Trainer on a model that is scattered already, which accelerate does itself on accelerators alone."""

    def create_accelerator_and_postprocess(self) -> None:
        super().create_accelerator_and_postprocess()
        self.accelerator.prepare_model = lambda hf, *_, **__: hf


def train_with_trainer(out: str, course: str) -> int:
    """Train with transformers' Trainer."""
    warnings.simplefilter("ignore")
    # accelerate asks for an address, though the processes have met already
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="1", LOCAL_WORLD_SIZE=os.environ["WORLD_SIZE"])
    settings = TrainingArguments(
        f"{out}-trainer",
        max_steps=STEPS,
        per_device_train_batch_size=2,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        seed=3,
        ddp_backend="gloo",
    )
    callbacks: list[TrainerCallback] = [DepthCallback(PROMPTS, every=2, out=course, progress=False)] if course else []
    trainer = ShardedTrainer(sharded(model("llama_tied")), settings, train_dataset=Rows(), callbacks=callbacks)
    trainer.train()
    assert type(trainer.model).__name__.startswith("FSDP"), "not sharded"
    save(trainer.model, [row["loss"] for row in trainer.state.log_history if "loss" in row], out)
    return 0


def refused(out: str) -> int:
    """Watch into a folder of something else, which the first process refuses: all of them have to end alike."""
    Path(out).mkdir(exist_ok=True)
    (Path(out) / "notes.txt").write_text("mine", encoding="utf-8")
    try:
        bathyscope.watch(sharded(model("llama_tied")), PROMPTS, out, progress=False)
    except BathyscopeError as error:
        print(type(error).__name__, error)
        return 0
    return 1


def _whole(value: Any) -> torch.Tensor:
    whole: torch.Tensor = value.full_tensor() if hasattr(value, "full_tensor") else value
    return whole
