"""Peak memory of exporting a 3 GB checkpoint from its folder: above the interpreter and the libraries it has to stay
below 1 GiB.

The checkpoint is of random weights, written shard by shard to a temporary folder and removed afterwards, as is the
export. The export runs in a process of its own; a second one, which only imports what the first does, says what
interpreter and libraries take.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch
from common import row
from transformers import LlamaConfig

from bathyscope.surgery.checkpoint.outline import skeleton
from bathyscope.surgery.checkpoint.weight_files import Written, bytes_of, kind_of, write_shards

_BLOCKS, _WIDTH, _MLP, _VOCABULARY = 28, 2048, 5632, 32_000
_IMPORTS = "import torch, transformers; from bathyscope.surgery import exporting"
# getrusage would count what the process that started this one takes
_PEAK = "print(next(int(line.split()[1]) for line in open('/proc/self/status') if line.startswith('VmHWM')) / 2**20)"


def written(folder: Path, shard_bytes: int) -> int:
    """A random checkpoint; returns its bytes."""
    config = LlamaConfig(
        num_hidden_layers=_BLOCKS,
        hidden_size=_WIDTH,
        intermediate_size=_MLP,
        num_attention_heads=16,
        num_key_value_heads=16,
        vocab_size=_VOCABULARY,
        tie_word_embeddings=False,
        dtype=torch.bfloat16,
    )
    config.save_pretrained(folder)

    def drawn(shape: torch.Size) -> Iterator[object]:
        yield from bytes_of((0.02 * torch.randn(shape)).to(torch.bfloat16))

    tensors = [
        Written(name, kind_of(torch.bfloat16), tuple(value.shape), 2 * value.numel(), partial(drawn, value.shape))
        for name, value in skeleton(config).state_dict().items()
    ]
    write_shards(folder, tensors, shard_bytes)
    return sum(tensor.size for tensor in tensors)


def peak_gib(code: str) -> float:
    """Largest resident set of a process of its own, in GiB."""
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"{_IMPORTS}; {code}; {_PEAK}"],
        check=True,
        capture_output=True,
        text=True,
    )
    return float(ran.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shard-bytes", type=int, default=2 * 10**9)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        free = shutil.disk_usage(place).free
        if free < 8 * 2**30:
            raise SystemExit(f"This takes 8 GiB of disk for a minute, and {place} has {free / 2**30:.1f} left.")
        source, out = Path(place) / "source", Path(place) / "out"
        source.mkdir()
        size = written(source, given.shard_bytes)
        libraries = peak_gib("1")
        export = f"exporting.export({json.dumps(str(source))}, 'drop:3,drop:20', {json.dumps(str(out))})"
        peak = peak_gib(export)
        copied = sum(file.stat().st_size for file in out.glob("*.safetensors"))
        row(
            f"export of {size / 10**9:.2f} GB from its folder, 2 of {_BLOCKS} blocks dropped",
            written_gb=copied / 10**9,
            libraries_gib=libraries,
            peak_gib=peak,
            above_gib=peak - libraries,
        )


if __name__ == "__main__":
    main()
