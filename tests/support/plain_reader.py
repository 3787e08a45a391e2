"""Run as a program: loads exported folders with transformers alone and writes down what they give.

``python plain_reader.py FOLDER`` reads FOLDER/cases.json, a list of {"folder", "ids", "cache"}, and writes
FOLDER/found.safetensors: for case i, logits-i and tokens-i, which are the prompt where cache is null; and
FOLDER/refused.json: those whose cache the library refuses, which generate without one.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, PreTrainedModel


def greedy(hf: PreTrainedModel, ids: torch.Tensor, cache: bool) -> torch.Tensor:
    """Five greedy tokens behind the first prompt."""
    tokens: torch.Tensor = hf.generate(
        ids[:1],
        attention_mask=torch.ones_like(ids[:1]),
        max_new_tokens=5,
        do_sample=False,
        pad_token_id=0,
        eos_token_id=None,
        use_cache=cache,
    )
    return tokens


def main(folder: Path) -> None:
    """Every case in turn."""
    found: dict[str, torch.Tensor] = {}
    refused: list[list[str]] = []
    for number, case in enumerate(json.loads((folder / "cases.json").read_text())):
        hf, said = AutoModelForCausalLM.from_pretrained(case["folder"], output_loading_info=True)
        if said["missing_keys"] or said["unexpected_keys"] or said["mismatched_keys"]:
            raise SystemExit(f"{case['folder']}: {said}")
        ids = torch.tensor(case["ids"])
        with torch.no_grad():
            found[f"logits-{number}"] = hf.eval()(ids, use_cache=False).logits
            if case["cache"] is None:
                found[f"tokens-{number}"] = ids[:1]
                continue
            try:
                found[f"tokens-{number}"] = greedy(hf, ids, case["cache"])
            except ValueError as error:  # the library's own, of a cache without any attention layer
                found[f"tokens-{number}"] = greedy(hf, ids, False)
                refused.append([case["folder"], str(error)])
    own = sorted(name for name in sys.modules if name.startswith("bathyscope"))
    if own:
        raise SystemExit(f"imported: {own}")
    (folder / "refused.json").write_text(json.dumps(refused))
    save_file({name: value.contiguous() for name, value in found.items()}, folder / "found.safetensors")


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    main(Path(sys.argv[1]))
