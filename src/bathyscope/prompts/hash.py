"""A fingerprint of tokenised prompts, which tells whether two runs measured the same tokens."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from bathyscope.prompts.prompt import TokenizedPrompt


def prompts_hash(prompts: Iterable[TokenizedPrompt]) -> str:
    """SHA-256 (hexadecimal) over ids, names, answers and labels, in order.

    One JSON line a prompt, keys sorted, so that it is the same on every machine and in every process.
    """
    digest = hashlib.sha256()
    for prompt in prompts:
        line = {
            "answer_tokens": prompt.answer_tokens,
            "id": prompt.id,
            "ids": list(prompt.ids),
            "labels": dict(prompt.labels),
        }
        digest.update(json.dumps(line, sort_keys=True, separators=(",", ":")).encode() + b"\n")
    return digest.hexdigest()
