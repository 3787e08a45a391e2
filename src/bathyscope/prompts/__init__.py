"""From anything a user gives to token ids, answers and labels.

``bathyscope.model.tokenized`` reads what a source (``source.resolve``) gives into the ``Prompts`` that every
part takes: token ids, names, answers, labels and their hash.
"""

from typing import TYPE_CHECKING, Any

from bathyscope.core.lazy import homes, load_name

if TYPE_CHECKING:
    from bathyscope.prompts.prompts import Prompts as Prompts
    from bathyscope.prompts.tasks import TASKS as TASKS
    from bathyscope.prompts.tasks import task as task
    from bathyscope.prompts.tasks.vocabulary import word_tokenizer as word_tokenizer

# a single prompt costs no more than its own file
_LAZY = homes(__file__)

__all__ = sorted(_LAZY)


def __getattr__(name: str) -> Any:
    return load_name(__name__, _LAZY, name)
