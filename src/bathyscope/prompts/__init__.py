"""What a model is measured on: where prompts come from, and how text becomes token ids.

``tokenized(model, "gsm8k:10")`` is the one way from whatever the user gives (``source.resolve``) to the ``Prompts``
that every part takes: token ids, names, answers, labels and their hash.
"""

from __future__ import annotations

from typing import Any

__all__ = ["TASKS", "Prompts", "task", "tokenized", "word_tokenizer"]

_HOMES = {
    "Prompts": "bathyscope.prompts.prompts",
    "TASKS": "bathyscope.prompts.tasks",
    "task": "bathyscope.prompts.tasks",
    "tokenized": "bathyscope.model.reading",
    "word_tokenizer": "bathyscope.prompts.tasks.vocabulary",
}


def __getattr__(name: str) -> Any:
    """Only when asked for, so that a single prompt costs no more than its own file."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
