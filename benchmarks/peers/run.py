"""The same numbers from other people's packages: each in a virtual environment of its own, next to ours.

    python benchmarks/peers/run.py --model SmolLM2=FOLDER --model bundled --data DATA    # all peers, on these models
    python benchmarks/peers/run.py --model Gemma3=FOLDER --data DATA --only captum,tuned_lens
    python benchmarks/peers/run.py --model SmolLM2=FOLDER --data DATA --float64  # what is left of the gaps in float64

Models are SmolLM2 and Gemma3, each with the folder that ``studies.real_model fetch`` stores, and the bundled one.
Environments are made below ``.cache/peers``. They see the packages of the environment that runs this, torch among them,
and hold in addition what a peer needs. Answers are stored in ``benchmarks/peers/results``; a stored one is not asked
for again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
RESULTS: Final = HERE / "results"
ENVIRONMENTS: Final = HERE.parents[1] / ".cache" / "peers"


@dataclass(frozen=True)
class Peer:
    """A package that is asked.

    Args:
        name: of its script, ``ask_NAME.py``, and of its environment.
        requirement: as pip takes it; "" = the environment that runs this has it.
        models: that it is asked about.
    """

    name: str
    requirement: str
    models: tuple[str, ...] = ("SmolLM2", "Gemma3", "bundled")


PEERS: Final = (
    Peer("transformer_lens", "transformer-lens==4.3.0"),
    Peer("tuned_lens", "tuned-lens==0.2.0"),
    Peer("captum", "captum==0.9.0"),
    Peer("nnsight", "nnsight==0.8.1"),
    Peer("pytorch_cka", "pytorch-cka==1.1.3"),
    Peer("optipfair", "optipfair==0.4.2"),
    Peer("short_transformers", "short-transformers==1.0.0"),
    Peer("transformers", ""),
    Peer("lm_eval", "", ("SmolLM2", "Gemma3")),
)
LETTERS: Final = {"SmolLM2": 120, "Gemma3": 60, "bundled": 120}
"""Of each piece of text, by model; half of them where each token is read out over a vocabulary of 262,144."""
TASK: Final = """\
task: arc_easy_of_a_file
dataset_path: json
dataset_kwargs:
  data_files:
    test: {file}
test_split: test
output_type: multiple_choice
doc_to_text: "Question: {{{{question}}}}\\nAnswer:"
doc_to_target: "{{{{choices.label.index(answerKey)}}}}"
doc_to_choice: "{{{{choices.text}}}}"
metric_list:
  - metric: acc
"""


def environment(peer: Peer) -> Path | str:
    """Return the Python of a peer's environment, made where it is missing; a text = why there is none."""
    if not peer.requirement:
        return Path(sys.executable)
    folder = ENVIRONMENTS / peer.name
    python = folder / "bin" / "python"
    ready = folder / "ready"
    if ready.exists() and ready.read_text(encoding="utf-8") == peer.requirement:
        return python
    venv.create(folder, with_pip=True, clear=True)
    # what the peer brings along comes first on the path, and these packages behind it
    site = next((folder / "lib").glob("python*/site-packages"))
    (site / "shared.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", peer.requirement]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode:
        lines = [line for line in finished.stderr.splitlines() if line.strip()]
        return f"cannot be installed: {' '.join(lines[-1].split())[:300] if lines else finished.returncode}"
    ready.write_text(peer.requirement, encoding="utf-8")
    return python


def request_of(model: Any, name: str, folder: Path, data: Path, place: Path, dtype: str) -> dict[str, Any]:
    """Return what all peers are asked: prompts as token ids, and settings."""
    from bathyscope.model import tokenized

    prompts = [list(prompt.ids) for prompt in tokenized(model, _texts(data, LETTERS[name]))]
    (added,) = tokenized(model, "addition:1?digits=1")
    (place / "task.yaml").write_text(TASK.format(file=data / "arc_easy/validation.jsonl"), encoding="utf-8")
    return {
        "model": str(folder),
        "dtype": dtype,
        "threads": 1,
        "prompts": prompts,
        "few": prompts[:3],
        "sum": {"ids": list(added.ids), "answer_tokens": added.answer_tokens},
        "gradient_block": 2 * model.n_blocks // 3,
        "nodes": 16,
        "exits": [2 * model.n_blocks // 3, model.n_blocks - 1],
        "draft": 2,
        "new_tokens": 10,
        "window": max(1, model.n_blocks // 5),
        "task": "arc_easy_of_a_file",
        "task_folder": str(place),
        "task_file": str(data / "arc_easy/validation.jsonl"),
        "limit": 12,
    }


def _texts(data: Path, letters: int) -> list[str]:
    """Return pieces of WikiText-2, far apart from one another."""
    text = (data / "text/wikitext2_valid.txt").read_text(encoding="utf-8")
    starts = [text.index("\n", number * len(text) // 8) for number in range(8)]
    return [text[start : start + 400].strip()[:letters].rsplit(" ", 1)[0] for start in starts]


def ask(peer: Peer, request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of a peer's script; an error is an answer too."""
    python = environment(peer)
    if isinstance(python, str):
        return failure(peer, python)
    with tempfile.TemporaryDirectory() as folder:
        question, answer = Path(folder) / "question.json", Path(folder) / "answer.json"
        question.write_text(json.dumps(request), encoding="utf-8")
        command = [str(python), str(HERE / f"ask_{peer.name}.py"), str(question), str(answer)]
        # nothing of this package stands on the path of a peer
        settings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        settings |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "WANDB_MODE": "disabled"}
        finished = subprocess.run(command, capture_output=True, text=True, check=False, env=settings)
        if not answer.exists():
            lines = [line for line in finished.stderr.splitlines() if line.strip()]
            error = " ".join(lines[-1].split())[:300] if lines else f"exit code {finished.returncode}"
            return failure(peer, error)
        content: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
        return content


def failure(peer: Peer, error: str) -> dict[str, Any]:
    """Return the answer of a peer that has none but an error."""
    package, _, version = peer.requirement.partition("==")
    return {"package": package or peer.name, "version": version, "error": error, "cells": {}}


def with_gaps_in_float64(stored: dict[str, Any], exact: dict[str, Any]) -> dict[str, Any]:
    """Return a stored answer with the gaps that the same cells have in float64.

    Raises:
        RuntimeError: the package gave no answer in float64, where it gave one in float32.
    """
    import numpy as np
    from table import gaps

    if "error" in exact:
        raise RuntimeError(f"{exact['package']} gave no answer in float64: {exact['error']}")
    for cell, values in exact["cells"].items():
        if "error" in values and "error" in stored["cells"][cell]:
            continue  # the table tells of it
        if "error" in values:
            raise RuntimeError(f"{exact['package']} gave no {cell} in float64: {values['error']}")
        theirs, ours = (np.asarray(side["values"], np.float64) for side in (values, values["ours"]))
        gap, relative = gaps(theirs, ours)
        stored["cells"][cell]["in_float64"] = {"gap": gap, "relative": relative}
    return stored


def name_and_folder(text: str) -> tuple[str, Path]:
    """Return the name of a model, as the table has it, and its folder.

    Raises:
        argparse.ArgumentTypeError: no such model, or a folder that is missing or not allowed.
    """
    name, _, folder = text.partition("=")
    if name == "bundled" and not folder:
        from bathyscope.model.bundled import model_path

        return name, model_path()
    if name not in LETTERS or name == "bundled" or not folder:
        raise argparse.ArgumentTypeError(f"{text} is no model. Give SmolLM2=FOLDER, Gemma3=FOLDER or bundled.")
    if not Path(folder, "config.json").is_file():
        raise argparse.ArgumentTypeError(
            f"{folder} has no config.json. `python -m studies.real_model fetch` stores models."
        )
    return name, Path(folder).resolve()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--model",
        type=name_and_folder,
        action="append",
        required=True,
        help="SmolLM2=FOLDER or Gemma3=FOLDER, as studies.real_model fetches them, or bundled; repeat it for several",
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with the data sets")
    parser.add_argument("--only", help="names of peers, separated by commas")
    parser.add_argument("--again", action="store_true", help="ask again what is stored")
    parser.add_argument("--float64", action="store_true", help="add to what is stored the gaps in float64")
    arguments = parser.parse_args()
    names = None if arguments.only is None else arguments.only.split(",")
    dtype = "float64" if arguments.float64 else "float32"
    import ours
    import torch
    from table import write_table

    import bathyscope

    torch.set_num_threads(1)
    RESULTS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        for name, folder in arguments.model:
            model = bathyscope.load(folder, dtype=dtype)
            request = request_of(model, name, folder, arguments.data.resolve(), Path(place), dtype)
            for peer in PEERS:
                file = RESULTS / f"{peer.name}__{name}.json"
                skipped = name not in peer.models or (names is not None and peer.name not in names)
                if skipped or (file.exists() and not (arguments.again or arguments.float64)):
                    continue
                if arguments.float64 and not file.exists():
                    parser.error(f"There is no {file.name} to add gaps in float64 to. Ask without --float64 first.")
                print(f"{name}: {peer.name} in {dtype}", flush=True)
                theirs = ask(peer, request)
                for cell, values in theirs["cells"].items():
                    values["ours"] = ours.answer(model, request, cell)
                if arguments.float64:
                    content = with_gaps_in_float64(json.loads(file.read_text(encoding="utf-8")), theirs)
                else:
                    content = {"model": name, **theirs}
                file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    write_table(RESULTS)


if __name__ == "__main__":
    main()
