"""Load a written checkpoint in plain transformers, in a process that never imports bathyscope, and compare logits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import torch
from transformers import PreTrainedModel

_TOKENS: Final = 24
_PLAIN: Final = """
import sys

import numpy as np
import torch
from transformers import AutoModelForCausalLM

folder, ids, logits, threads = sys.argv[1:]
torch.set_num_threads(int(threads))
hf = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
with torch.no_grad():
    np.save(logits, hf(torch.from_numpy(np.load(ids)), use_cache=False).logits.numpy())
assert not any(name.partition(".")[0] == "bathyscope" for name in sys.modules)
"""


@torch.no_grad()
def compare_reloaded(hf: PreTrainedModel, folder: Path) -> dict[str, Any]:
    """Require that a checkpoint gives a model's logits where this package is not imported.

    Args:
        hf: the model that was written, as it runs here.
        folder: of the checkpoint.

    Returns:
        Number of tokens, largest difference of a logit, and whether all are equal to the bit.

    Raises:
        AssertionError: the logits differ.
    """
    ids = torch.from_numpy(np.random.default_rng(0).integers(3, hf.config.vocab_size, (1, _TOKENS)))
    expected = hf(ids, use_cache=False).logits.numpy()
    with TemporaryDirectory() as place:
        files = [Path(place) / f"{name}.npy" for name in ("ids", "logits")]
        np.save(files[0], ids.numpy())
        # -I: neither this checkout nor the user's settings are seen
        command = [sys.executable, "-I", "-c", _PLAIN, str(folder), *map(str, files), str(torch.get_num_threads())]
        subprocess.run(command, check=True, capture_output=True)
        logits = np.load(files[1])
    largest = float(np.abs(logits - expected).max())
    assert np.array_equal(logits, expected), f"{folder} gives logits that differ by up to {largest:g}."
    return {"tokens": _TOKENS, "largest_difference": largest, "equal": True}
