"""Peak memory of surveying over four vocabularies, with the sources that PYTHONPATH names: before and after a change.

    python benchmarks/peak_memory.py                       # these sources
    python benchmarks/peak_memory.py --sources before=OLD/src     # and others beside them, by a name

Each vocabulary has a process of its own: two blocks 576 wide, lens and drop of prompts of 96 and 128 tokens. What is
printed is the largest resident set, less that of the process once the model is loaded. Results are added to a file of
the machine's name under benchmarks/results/.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

VOCABULARIES = (32_000, 49_152, 152_064, 262_144)
OURS = Path(__file__).resolve().parents[1] / "src"


def resident() -> int:
    """Bytes of this process in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def measure(vocabulary: int) -> dict[str, float]:
    """Survey a random model, and return what memory it took."""
    import torch
    from common import LlamaSizes

    from bathyscope import load, survey

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = load(LlamaSizes(2, 576, 1536, 9, 3, vocabulary).build(tie_word_embeddings=True))
    generator = torch.Generator().manual_seed(1)
    prompts = [torch.randint(3, vocabulary, (length,), generator=generator).tolist() for length in (96, 128)]
    survey(model, [[5, 6, 7, 8]], ["residual"], progress=False)
    loaded = resident()
    Path("/proc/self/clear_refs").write_text("5")
    survey(model, prompts, ["lens", "drop"], progress=False)
    status = Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) << 10
    return {"loaded_mb": loaded / 1e6, "peak_mb": peak / 1e6, "above_mb": (peak - loaded) / 1e6}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", action="append", default=[], metavar="NAME=FOLDER", help="other src folders")
    parser.add_argument("--vocabulary", type=int, help="measure this one here, and print it as JSON")
    arguments = parser.parse_args()
    if arguments.vocabulary:
        print(json.dumps(measure(arguments.vocabulary)))
        return
    from real_shapes import RESULTS, store_result

    others = [(name, Path(folder)) for name, _, folder in (given.partition("=") for given in arguments.sources)]
    results: dict[str, dict[str, dict[str, float]]] = {}
    for vocabulary in VOCABULARIES:
        for label, sources in (*others, ("these sources", OURS)):
            variables = os.environ | {"PYTHONPATH": str(sources)}
            command = [sys.executable, __file__, "--vocabulary", str(vocabulary)]
            output = subprocess.run(command, env=variables, check=True, capture_output=True, text=True).stdout
            numbers = json.loads(output.splitlines()[-1])
            results.setdefault(str(vocabulary), {})[label] = numbers
            store_result("peak memory of lens and drop", {"vocabularies": results}, RESULTS)
            print(f"{vocabulary:>8}  {label:<28} " + "  ".join(f"{n} {v:.0f}" for n, v in numbers.items()), flush=True)


if __name__ == "__main__":
    main()
