"""A model surveyed in memory and streamed from disk: peak memory, CPU time, readings, and the same bytes of results.

The checkpoint is random bfloat16 weights, by default 24 blocks × width 2048, 3.3 GB; it is written block by block and
removed afterwards. Either side is a process of its own. Goals: a peak of at most 0.45 × the weights above interpreter
and libraries, 1.05 × the CPU time, one reading at load and one for the convoy, and equal SHA-256 of every file.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from common import row

MEMORY, CPU = 0.45, 1.05
MEASURES = ("residual", "lens", "drop", "swap")


def write(folder: Path, blocks: int, width: int, mlp: int, vocabulary: int) -> int:
    """A random Llama, a file for every block; gives the bytes of its weights."""
    import torch
    from safetensors.torch import save_file
    from transformers import LlamaConfig

    heads = {"num_attention_heads": width // 128, "num_key_value_heads": width // 128}
    LlamaConfig(
        num_hidden_layers=blocks,
        hidden_size=width,
        intermediate_size=mlp,
        vocab_size=vocabulary,
        tie_word_embeddings=False,
        dtype="bfloat16",
        architectures=["LlamaForCausalLM"],
        **heads,
    ).save_pretrained(folder)
    draw = torch.Generator().manual_seed(0)
    attention = {f"self_attn.{name}_proj": (width, width) for name in "qkvo"}
    shapes = attention | {"mlp.gate_proj": (mlp, width), "mlp.up_proj": (mlp, width), "mlp.down_proj": (width, mlp)}
    places: dict[str, str] = {}
    total = 0
    for index in range(-1, blocks):
        own = shapes if index >= 0 else {"model.embed_tokens": (vocabulary, width), "lm_head": (vocabulary, width)}
        norms = ("input_layernorm", "post_attention_layernorm") if index >= 0 else ("model.norm",)
        before = f"model.layers.{index}." if index >= 0 else ""
        tensors = {
            f"{before}{name}.weight": (0.02 * torch.randn(shape, generator=draw)).bfloat16()
            for name, shape in own.items()
        }
        tensors |= {f"{before}{name}.weight": torch.ones(width, dtype=torch.bfloat16) for name in norms}
        file = f"model-{index + 2:05d}-of-{blocks + 1:05d}.safetensors"
        save_file(tensors, folder / file, {"format": "pt"})
        places |= dict.fromkeys(tensors, file)
        total += sum(tensor.nbytes for tensor in tensors.values())
    index_file = folder / "model.safetensors.index.json"
    index_file.write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": places}))
    return total


def peak_bytes() -> int:
    """Largest resident set of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def warm_up(placement: str, folder: Path) -> None:
    """The same of a model of no size: libraries are imported when they are needed, and are no part of a model."""
    from bathyscope import load, survey

    write(folder / "model", 2, 128, 128, 300)
    model = load(folder / "model", placement=placement)  # type: ignore[arg-type]
    survey(model, [[5] * 20], list(MEASURES), out=folder / "run", progress=False)


def one_side(placement: str, folder: Path, out: Path, lengths: list[int]) -> None:
    """Surveys the model and says what it took."""
    import random

    from bathyscope import load, survey

    warm_up(placement, out.with_name(f"{out.name}-small"))
    before, began = peak_bytes(), time.process_time()
    model = load(folder, placement=placement)  # type: ignore[arg-type]
    at_load = 0 if model.blocks is None else model.blocks.readings.blocks
    loaded = time.process_time() - began
    draw = random.Random(0)
    prompts = [[draw.randrange(3, model.vocabulary) for _ in range(length)] for length in lengths]
    # a shard for every prompt
    survey(model, prompts, list(MEASURES), out=out, batch_tokens=max(lengths), progress=False)
    told: dict[str, Any] = {
        "above_bytes": peak_bytes() - before,
        "cpu_s": time.process_time() - began,
        "cpu_load_s": loaded,
        "readings_at_load": at_load / model.n_blocks,
        "readings": 0 if model.blocks is None else (model.blocks.readings.blocks - at_load) / model.n_blocks,
    }
    print(json.dumps(told))


def hashes(out: Path) -> dict[str, str]:
    """File → SHA-256 of every file of results."""
    import hashlib

    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(out.glob("*.nc"))}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=24)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--mlp", type=int, default=8192)
    parser.add_argument("--vocabulary", type=int, default=4096)
    parser.add_argument("--lengths", type=int, nargs="+", default=[96, 120, 128])
    parser.add_argument("--side", choices=("resident", "stream"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.side:
        one_side(given.side, given.folder, given.out, given.lengths)
        return 0
    with TemporaryDirectory(prefix="bathyscope-benchmark-") as made:
        folder = Path(made)
        weights = write(folder / "model", given.blocks, given.width, given.mlp, given.vocabulary)
        found, files = {}, {}
        for side in ("resident", "stream"):
            flags = ["--side", side, "--folder", str(folder / "model"), "--out", str(folder / side), "--lengths"]
            said = subprocess.run(
                [sys.executable, __file__, *flags, *map(str, given.lengths)], check=True, stdout=subprocess.PIPE
            )
            found[side], files[side] = json.loads(said.stdout.splitlines()[-1]), hashes(folder / side)
    resident, stream = found["resident"], found["stream"]
    row(
        f"streaming, {given.blocks} × {given.width}, bfloat16, prompts of {given.lengths} tokens",
        weights_gib=weights / 2**30,
        resident_above_gib=resident["above_bytes"] / 2**30,
        stream_above_gib=stream["above_bytes"] / 2**30,
        memory_of_weights=stream["above_bytes"] / weights,
        resident_cpu_s=resident["cpu_s"],
        stream_cpu_s=stream["cpu_s"],
        cpu_ratio=stream["cpu_s"] / resident["cpu_s"],
        readings_at_load=stream["readings_at_load"],
        readings=stream["readings"],
        equal_files=sum(files["stream"].get(name) == value for name, value in files["resident"].items()),
        files=len(files["resident"]),
    )
    kept = (
        files["stream"] == files["resident"]
        and stream["above_bytes"] <= MEMORY * weights
        and stream["cpu_s"] <= CPU * resident["cpu_s"]
        and stream["readings_at_load"] == stream["readings"] == 1
    )
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
