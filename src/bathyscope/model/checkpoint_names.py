"""What the tensors of a checkpoint are called in the model that the library loads from it."""

from transformers import PreTrainedModel
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import WeightConverter, WeightRenaming, rename_source_key


class CheckpointNames:
    """What the tensors of a checkpoint are called in the model that is loaded from it."""

    def __init__(self, model: PreTrainedModel) -> None:
        mapping = get_model_conversion_mapping(model)
        self._renamings = [entry for entry in mapping if isinstance(entry, WeightRenaming)]
        self._converters = [entry for entry in mapping if isinstance(entry, WeightConverter)]
        self._prefix = model.base_model_prefix
        self.tensors = model.state_dict()

    def is_copied(self, name: str) -> bool:
        """Return whether a checkpoint's tensor is taken as it is, and not merged with others or turned."""
        return rename_source_key(name, self._renamings, self._converters, self._prefix, self.tensors)[1] is None

    def of(self, name: str) -> str | None:
        """Return the model's name of a checkpoint's tensor; None where it has no place for it."""
        model_name, _ = rename_source_key(name, self._renamings, self._converters, self._prefix, self.tensors)
        if model_name not in self.tensors and name in self.tensors:
            model_name = name
        return model_name if model_name in self.tensors else None
