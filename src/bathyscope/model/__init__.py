"""From a name to a checked model: files, anatomy, streaming, memory."""

from typing import TYPE_CHECKING, Any

from bathyscope.core.lazy import homes, load_name

if TYPE_CHECKING:
    from bathyscope.model.admission import alone as alone
    from bathyscope.model.configuration import load_config as load_config
    from bathyscope.model.devices import as_device as as_device
    from bathyscope.model.devices import as_dtype as as_dtype
    from bathyscope.model.loading import AnyModel as AnyModel
    from bathyscope.model.loading import ModelArgument as ModelArgument
    from bathyscope.model.loading import load as load
    from bathyscope.model.loading import loaded as loaded
    from bathyscope.model.model import Model as Model
    from bathyscope.model.proving import anatomy_of as anatomy_of
    from bathyscope.model.reading import tokenized as tokenized
    from bathyscope.model.weights import adapters_of as adapters_of
    from bathyscope.model.weights import config_hash as config_hash
    from bathyscope.model.weights import weight_hash as weight_hash

# torch and transformers take seconds to import, and families are data that need neither
_LAZY = homes(__file__)

__all__ = sorted(_LAZY)


def __getattr__(name: str) -> Any:
    return load_name(__name__, _LAZY, name)
