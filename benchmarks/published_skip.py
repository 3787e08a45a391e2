"""Times the published code of skip effects at later tokens (csordas2025) on a Llama-like checkpoint.

    python benchmarks/published_skip.py CLONE CHECKPOINT REQUEST.json RESULT.json

It runs in an environment of its own, which `real_shapes.py --published-python` names: transformers 4.51 and
nnsight 0.4.6, as the code asks for. CLONE is a clone of github.com/RobertCsordas/llm_effective_depth. REQUEST has
``threads`` and ``prompts``, each with its ``text`` and ``positions``; RESULT gets ``seconds`` and ``cpu_seconds``, and
of each prompt its ``effects`` (skipped block, later block) and its ``output`` effects (skipped block).
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any


def stand_in(name: str, **members: Any) -> None:
    """Puts a module in the place of one that the code imports and that this needs nothing of."""
    module = ModuleType(name)
    for member, value in members.items():
        setattr(module, member, value)
    sys.modules[name] = module


def as_transformers_4(checkpoint: Path, folder: Path) -> None:
    """A checkpoint of links whose configuration has the rotary base where transformers 4 looks for it."""
    for file in checkpoint.iterdir():
        if file.name != "config.json":
            (folder / file.name).symlink_to(file.resolve())
    config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    rotary = config.pop("rope_parameters", None) or {}
    config["rope_theta"] = rotary.get("rope_theta", config.get("rope_theta", 10000.0))
    config["rope_scaling"] = None
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


def main() -> None:
    clone, checkpoint, request_file, result_file = (Path(argument).resolve() for argument in sys.argv[1:5])
    request = json.loads(request_file.read_text(encoding="utf-8"))
    os.environ["NDIF_TOKEN"] = "none"
    sys.path.insert(0, str(clone / "analysis"))
    import nnsight
    import torch
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

    importlib.import_module("lib")  # of the clone, before parts of it are replaced
    stand_in("lib.ndif_cache", ndif_cache_wrapper=lambda function: function)
    stand_in("datasets", load_dataset=None)
    published = importlib.import_module("analyze_future_effects")
    torch.set_num_threads(request["threads"])
    torch.set_grad_enabled(False)
    with tempfile.TemporaryDirectory() as folder:
        as_transformers_4(checkpoint, Path(folder))
        hf = AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float32).eval()
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(checkpoint / "tokenizer.json"))
    tokenizer.pad_token = tokenizer.convert_ids_to_tokens(0)
    model = nnsight.LanguageModel(hf, tokenizer=tokenizer)
    model.remote = False
    began, cpu_began = time.perf_counter(), time.process_time()
    values = [
        published.test_effect(model, prompt["text"], prompt["positions"], "layer") for prompt in request["prompts"]
    ]
    result: dict[str, Any] = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu_began}
    result["effects"], result["output"] = ([value.tolist() for value in column] for column in zip(*values))
    result_file.write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
