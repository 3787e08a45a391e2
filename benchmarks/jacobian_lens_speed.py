"""Jacobian lens: time for each prompt and peak memory, block by block against the reference formula written plainly.

The plain way holds the graph of the whole model, for as many copies of the prompt as there are cotangents in one
backward pass. Each way runs in a process of its own, since peak memory is that of a process.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch
from common import Setting, arguments, prompts, row
from memory import peak_gib
from torch import Tensor

from bathyscope import fit_lens
from bathyscope.model import Model

TOKENS = 64
SKIP_FIRST = 16
DIRECTIONS = 64
"""Of the width; exact lenses take width / DIRECTIONS times as long either way."""
BATCHES = (1, 8, 16)
"""Cotangents in one backward pass of the plain way."""


def whole_graph_rows(model: Model, ids: Sequence[int], directions_KD: Tensor, batch: int) -> Tensor:
    """Rows of one prompt's Jacobian at every boundary [blocks, K, width]: one backward through everything a batch."""
    counted = slice(SKIP_FIRST, len(ids) - 1)
    rows = []
    for part_BD in directions_KD.split(batch):
        boundaries: list[Tensor] = []

        def begin(_module: object, args: tuple[Any, ...], boundaries: list[Tensor] = boundaries) -> tuple[Any, ...]:
            boundaries.append(args[0].detach().requires_grad_())
            return (boundaries[0], *args[1:])

        def note(_module: object, _args: object, output: Any, boundaries: list[Tensor] = boundaries) -> None:
            boundaries.append(output if isinstance(output, Tensor) else output[0])

        with ExitStack() as stack:
            stack.callback(model.anatomy.blocks[0].register_forward_pre_hook(begin).remove)
            for block in model.anatomy.blocks:
                stack.callback(block.register_forward_hook(note).remove)
            with torch.enable_grad():
                tokens_BT = torch.tensor([list(ids)]).expand(len(part_BD), -1)
                model.hf.base_model(input_ids=tokens_BT, use_cache=False)
        cotangents = torch.zeros_like(boundaries[-1])
        cotangents[:, counted] = part_BD[:, None]
        gradients = torch.autograd.grad(boundaries[-1], boundaries[:-1], cotangents)
        rows.append(torch.stack([gradient[:, counted].mean(1) for gradient in gradients]))
    return torch.cat(rows, dim=1)


def measure(way: str, setting: Setting, n_prompts: int) -> dict[str, float]:
    """Seconds for each prompt, and GiB above the loaded model, of one way: ``fit_lens`` or a batch of the plain one."""
    model = setting.model()
    for weight in model.hf.parameters():
        weight.requires_grad_(False)
    ids = prompts(setting, (TOKENS,) * n_prompts)
    loaded, began = peak_gib(), time.perf_counter()
    if way == "fit_lens":
        fit_lens(model, ids, directions=DIRECTIONS, skip_first=SKIP_FIRST, progress=False)
    else:
        directions_KD = torch.linalg.qr(torch.randn(setting.width, DIRECTIONS)).Q.mT
        for prompt in ids:
            whole_graph_rows(model, prompt, directions_KD, int(way))
    return {"seconds_a_prompt": (time.perf_counter() - began) / n_prompts, "above_gib": peak_gib() - loaded}


def main() -> None:
    given = arguments(__doc__ or "")
    setting = Setting(blocks=given.blocks, width=given.width)
    title = f"{setting.blocks} × {setting.width}, {TOKENS} tokens, {DIRECTIONS} directions"
    results = {}
    for way in ("fit_lens", *map(str, BATCHES)):
        call = [sys.executable, __file__, "--blocks", str(given.blocks), "--width", str(given.width)]
        call += ["--threads", str(given.threads), "--repeats", str(given.repeats), "--device", f"way:{way}"]
        output = subprocess.run(call, capture_output=True, text=True, check=True).stdout
        results[way] = json.loads(output.splitlines()[-1])
        name = "fit_lens" if way == "fit_lens" else f"whole graph, {way} a backward"
        row(
            f"{name}, {title}",
            **results[way],
            ratio=results[way]["seconds_a_prompt"] / results["fit_lens"]["seconds_a_prompt"],
        )


if __name__ == "__main__":
    flags = arguments(__doc__ or "")
    if flags.device.startswith("way:"):
        measured = measure(flags.device[4:], Setting(blocks=flags.blocks, width=flags.width), max(2, flags.repeats))
        print(json.dumps(measured))
    else:
        main()
