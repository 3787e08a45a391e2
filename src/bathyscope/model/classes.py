"""Which class of transformers opens a checkpoint: the causal one, or that of models that read images as well."""

from typing import Any, Final

from transformers import AutoModelForCausalLM, AutoModelForImageTextToText
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
)

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
