"""Which class of transformers opens a checkpoint: the causal one, or that of models that read images as well.

And which class it was saved by, where that one predicts no tokens.
"""

import re
from typing import Any, Final

from transformers import AutoModelForCausalLM, AutoModelForImageTextToText
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
)

_CLASSIFIER: Final = re.compile(r"\w+(For\w*(Classification|QuestionAnswering|MultipleChoice)|RewardModel)")
_WITHOUT_HEAD: Final = re.compile(r"\w+(?<!LMHead)(?<!DoubleHeads)(?<!Reward)Model")
_ENTRIES: Final = ("model_type", "auto_map")


def class_for(config: Any) -> Any:
    """Return the automatic class for a configuration, an object or as it is written.

    A model of images and text is opened as a whole, and its text is measured. Code that comes with a checkpoint says
    itself which class it has.
    """
    declared = config if isinstance(config, dict) else {name: getattr(config, name, None) for name in _ENTRIES}
    kind, code = declared.get("model_type"), declared.get("auto_map")
    images_alone = kind in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES and kind not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    return AutoModelForImageTextToText if images_alone and not code else AutoModelForCausalLM


def loads_by_itself(config: Any) -> bool:
    """Whether transformers opens a checkpoint of this configuration as one that writes text."""
    return type(config) in class_for(config)._model_mapping


def classifier_of(architectures: Any) -> str | None:
    """Return the class of a classifier that a configuration names in ``architectures``; None where it names another."""
    return _only_class(architectures, _CLASSIFIER)


def headless_of(architectures: Any, model: object) -> str | None:
    """Return the class of a model without a head that a configuration names (LlamaModel); None where it names none.

    Args:
        model: what the checkpoint was loaded as; code of one's own may call a whole model so.
    """
    name = _only_class(architectures, _WITHOUT_HEAD)
    return None if name == type(model).__name__ else name


def _only_class(architectures: Any, pattern: re.Pattern[str]) -> str | None:
    """Return the first of the named classes, where all that are named are of a kind."""
    names = architectures if isinstance(architectures, list | tuple) else ()
    matching = [name for name in names if isinstance(name, str) and pattern.fullmatch(name)]
    return matching[0] if matching and len(matching) == len(names) else None
