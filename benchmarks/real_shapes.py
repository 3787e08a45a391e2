"""Skip effects on real shapes: one wavefront against one forward per intervention with the same readouts.

    python benchmarks/real_shapes.py                                        # every case once, at a small size
    python benchmarks/real_shapes.py --size real --case 49k --threads 2     # one case as large as models are
    python benchmarks/real_shapes.py --size real --case checkpoint --model FOLDER \\
        --published CLONE --published-python PYTHON                         # and against the published code

Results are added to a file of the machine's name under benchmarks/results/, by case, size and threads.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from common import LlamaSizes  # first: it sets large pages before torch is imported  # isort: skip

import numpy as np
import torch
import xarray as xr
from naive import skip_effects

from bathyscope import Model, estimate, load, survey
from bathyscope.measures.positions import sample_positions
from bathyscope.model.anatomy.readout import Readout
from bathyscope.prompts.datasets.published import gsm8k
from bathyscope.surveying.rates import matrix_rate
from bathyscope.wavefront.compare import compare
from bathyscope.wavefront.metrics import METRICS
from bathyscope.wavefront.reader import Reader

RESULTS: Final = Path(__file__).parent / "results"
READ_TOKENS, READ_ROWS = 256, 3
LOGIT_SPREAD: Final = 4.0
METRIC_SETS: Final = {"l2": ["l2"], "every_metric": list(METRICS)}
TEXTS: Final = (
    "A farmer sells 16 eggs a day. She eats three of them for breakfast and bakes muffins for her friends with four. "
    "She sells the rest at the market for 2 dollars each. How many dollars does she make every day?",
    "A robe takes two bolts of blue fibre and half that much white fibre. How many bolts does it take in all, and how "
    "many would three robes of the same kind take, if one bolt of each colour is lost on the way to the tailor?",
)


@dataclass(frozen=True)
class Case:
    """A random Llama, and the lengths of its prompts."""

    sizes: LlamaSizes
    lengths: tuple[int, ...]


VOCABULARIES: Final = {"32k": 32_000, "49k": 49_152, "152k": 152_064, "262k": 262_144}
CASES: Final = {
    "real": {
        **{name: Case(LlamaSizes(8, 576, 1536, 9, 3, entries), (96, 128)) for name, entries in VOCABULARIES.items()},
        "wide": Case(LlamaSizes(2, 4096, 11008, 32, 32, 32_000), (96,)),
    },
    "small": {
        **{name: Case(LlamaSizes(2, 64, 128, 2, 1, entries), (24,)) for name, entries in VOCABULARIES.items()},
        "wide": Case(LlamaSizes(2, 1024, 2752, 8, 8, 1000), (24,)),
    },
}
CHECKPOINT: Final = "checkpoint"


def timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """Return what one run gives, and its wall and CPU seconds."""
    began, cpu_began = time.perf_counter(), time.process_time()
    result = work()
    return result, time.perf_counter() - began, time.process_time() - cpu_began


def predicted_seconds(model: Model, ids: Sequence[list[int]], measure: str, options: dict[str, Any]) -> float:
    """Predict the seconds of a survey of one measure from the configuration alone."""
    with tempfile.TemporaryDirectory() as folder:
        model.hf.config.save_pretrained(folder)
        return estimate(folder, [list(own) for own in ids], measure, dtype=model.dtype, **options).seconds


@torch.no_grad()
def readouts(model: Model, matrix: float) -> dict[str, float]:
    """Measure readouts against a large matrix product, and the arithmetic over the vocabulary against the readout."""
    anatomy = model.anatomy
    head: Any = model.hf.get_output_embeddings()
    # a random model knows nothing of the next token; trained ones put nearly all probability on a few
    spread = float(head.weight[:1024].std()) * anatomy.width**0.5
    states_RND = LOGIT_SPREAD / spread * torch.randn(1 + READ_ROWS, READ_TOKENS, anatomy.width)
    reader = Reader(Readout(None, head), anatomy.vocabulary)
    targets_N = torch.zeros(READ_TOKENS, dtype=torch.long)

    def compare_rows(metrics: Sequence[str]) -> None:
        reference_ND, *rows = states_RND
        compare(reader, reference_ND, rows, metrics, targets_N=targets_N)

    compare_rows(["l2"])
    product = (1 + READ_ROWS) * min(timed(partial(head, states_RND[0]))[1] for _ in range(5))
    flops = 2.0 * (1 + READ_ROWS) * READ_TOKENS * anatomy.width * anatomy.vocabulary
    shares = {"product_share_of_matrix_rate": flops / product / matrix}
    for name, metrics in METRIC_SETS.items():
        whole = min(timed(partial(compare_rows, metrics))[1] for _ in range(3))
        shares[f"arithmetic_over_product_{name}"] = (whole - product) / product
    return shares


def measured(model: Model, ids: Sequence[list[int]], repeats: int) -> tuple[dict[str, Any], xr.Dataset]:
    """Time both ways in turn, require that they agree, and return the times and the effects."""
    positions = sample_positions([len(own) for own in ids], 0)
    options: dict[str, Any] = {"positions": positions}
    matrix = matrix_rate(model.dtype, torch.device("cpu"))
    result: dict[str, Any] = {"matrix_gflops": matrix / 1e9, **readouts(model, matrix)}
    result["predicted_s"] = predicted_seconds(model, ids, "skip", {"skip": options})
    names = ("effect_all", "output_all", "effect_future", "output_future")

    def wavefront() -> Any:
        return survey(model, list(ids), ["skip"], progress=False, skip=options)["skip"]

    def one_by_one() -> Any:
        return [skip_effects(model, own, starts) for own, starts in zip(ids, positions)]

    ours, naive = [], []
    for _ in range(repeats):
        effects, *times = timed(wavefront)
        ours.append(times)
        expected, *times = timed(one_by_one)
        naive.append(times)
        largest = effects.sel(reduction="max", part="block")
        for number, values in enumerate(expected):
            for name, value in zip(names, values):
                gap = float((torch.tensor(largest[name][number].values) - value).abs().max())
                assert gap < 1e-3, f"{name} of prompt {number} differs from one forward per intervention by {gap}"
    for name, times in (("wavefront", ours), ("forward_per_intervention", naive)):
        result[f"{name}_s"], result[f"{name}_cpu_s"] = (min(column) for column in zip(*times))
    result["ratio"] = result["forward_per_intervention_s"] / result["wavefront_s"]
    result["predicted_over_measured"] = result["predicted_s"] / result["wavefront_s"]
    return result, effects


def gsm8k_texts(file: Path, count: int) -> list[str]:
    """Return the first prompts of a file of GSM8K, as a survey of that data set reads them."""
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()[:count]]
    return [str(gsm8k(row).text) for row in rows]


def published(arguments: argparse.Namespace, texts: Sequence[str], effects: xr.Dataset) -> dict[str, float]:
    """Time the published code, in its own environment, on the same prompts and positions, and compare its values."""
    starts = [[int(start) for start in own if start >= 0] for own in effects["positions"].fillna(-1).values]
    prompts = [{"text": text, "positions": own} for text, own in zip(texts, starts)]
    with tempfile.TemporaryDirectory() as folder:
        request, result = Path(folder) / "request.json", Path(folder) / "result.json"
        request.write_text(json.dumps({"threads": arguments.threads, "prompts": prompts}), encoding="utf-8")
        script = Path(__file__).parent / "published_skip.py"
        command = [arguments.published_python, str(script), arguments.published, arguments.model]
        subprocess.run([*command, str(request), str(result)], check=True)
        theirs = json.loads(result.read_text(encoding="utf-8"))
    largest = effects.sel(reduction="max", part="block")
    # only blocks behind the skipped one are defined here
    ours = largest["effect_future"].transpose("prompt", "skipped", "block").values
    behind = np.triu(np.ones(ours.shape[1:], dtype=bool), 1)
    gaps = np.abs(ours - np.array(theirs["effects"]))[:, behind]
    outputs = largest["output_future"].transpose("prompt", "skipped").values
    output_gaps = np.abs(outputs - np.array(theirs["output"]).reshape(outputs.shape))
    return {
        "published_s": theirs["seconds"],
        "published_cpu_s": theirs["cpu_seconds"],
        "published_largest_gap": float(gaps.max()),
        "published_largest_output_gap": float(output_gaps.max()),
    }


def machine() -> str:
    """Return the name of the processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    named = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return named or platform.processor() or platform.machine()


def store_result(name: str, result: dict[str, Any], folder: Path) -> Path:
    """Add a result to the machine's file; an earlier one of its name is replaced."""
    folder.mkdir(exist_ok=True)
    path = folder / f"real_shapes-{re.sub(r'[^a-z0-9]+', '-', machine().lower()).strip('-')}.json"
    document = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"results": {}}
    document |= {"machine": machine(), "cores": os.cpu_count(), "torch": torch.__version__}
    document["results"][name] = {"when": time.strftime("%Y-%m-%d"), **result}
    path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return path


def measure_case(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure one case."""
    if name == CHECKPOINT:
        model = load(arguments.model, dtype="float32")
        assert model.tokenizer is not None
        texts = TEXTS if arguments.gsm8k is None else gsm8k_texts(arguments.gsm8k, len(TEXTS))
        ids = [model.tokenizer(text).input_ids for text in texts]
        result = {"model": Path(arguments.model).name, "lengths": [len(prompt) for prompt in ids]}
        times, effects = measured(model, ids, arguments.repeats)
        result |= times
        if arguments.published:
            result |= published(arguments, texts, effects)
            result["published_over_wavefront"] = result["published_s"] / result["wavefront_s"]
        return result
    case = CASES[arguments.size][name]
    vocabulary = case.sizes.vocabulary
    generator = torch.Generator().manual_seed(1)
    ids = [torch.randint(3, vocabulary, (length,), generator=generator).tolist() for length in case.lengths]
    model = load(case.sizes.build(tie_word_embeddings=True))
    times, _ = measured(model, ids, arguments.repeats)
    return {"shape": {**asdict(case.sizes), "lengths": case.lengths}, **times}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cases = (*CASES["real"], CHECKPOINT)
    parser.add_argument("--case", action="append", choices=cases, help="several times for several; none = all")
    parser.add_argument("--size", choices=list(CASES), default="small")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--model", help="folder of a Llama-like checkpoint, for the case checkpoint")
    parser.add_argument("--gsm8k", type=Path, help="rows of GSM8K, whose first two prompts the case checkpoint takes")
    parser.add_argument("--published", help="a clone of github.com/RobertCsordas/llm_effective_depth")
    parser.add_argument("--published-python", help="the Python of an environment that the clone runs in")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of results")
    arguments = parser.parse_args()
    if arguments.published and not arguments.published_python:
        parser.error("--published needs --published-python, since the code runs with older libraries.")
    if CHECKPOINT in (arguments.case or ()) and not arguments.model:
        parser.error("The case checkpoint needs --model FOLDER.")
    torch.set_num_threads(arguments.threads)
    for case in arguments.case or [case for case in cases if case != CHECKPOINT or arguments.model]:
        result = measure_case(case, arguments)
        path = store_result(f"{case}, {arguments.size}, {arguments.threads} threads", result, arguments.out)
        numbers = "   ".join(f"{name} {value:.3g}" for name, value in result.items() if isinstance(value, float))
        print(f"{case:<12} {numbers}", flush=True)
    print(f"Written: {path}")


if __name__ == "__main__":
    main()
