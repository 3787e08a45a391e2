"""What a model is measured on: where prompts come from, and how text becomes token ids.

``tokenized(model, "gsm8k:10")`` is the one way from whatever the user gives (``source.resolve``) to the ``Prompts``
that every part takes: token ids, names, answers, labels and their hash.
"""

from typing import Any

from bathyscope.lazy import found

# a single prompt costs no more than its own file
_HOMES = {
    "Prompts": "bathyscope.prompts.prompts:Prompts",
    "TASKS": "bathyscope.prompts.tasks:TASKS",
    "task": "bathyscope.prompts.tasks:task",
    "tokenized": "bathyscope.model.reading:tokenized",
    "word_tokenizer": "bathyscope.prompts.tasks.vocabulary:word_tokenizer",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    return found(__name__, _HOMES, name)
