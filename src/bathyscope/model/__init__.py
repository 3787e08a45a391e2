"""Loading a causal language model, checking that its anatomy holds, and knowing what it is."""

from bathyscope.model.admission import alone
from bathyscope.model.checkpoint import load_config
from bathyscope.model.devices import as_device, as_dtype
from bathyscope.model.loading import AnyModel, anatomy_of, load, loaded
from bathyscope.model.model import Model
from bathyscope.model.weights import adapters_of, config_hash, weight_hash

__all__ = [
    "AnyModel",
    "Model",
    "adapters_of",
    "alone",
    "anatomy_of",
    "as_device",
    "as_dtype",
    "config_hash",
    "load",
    "load_config",
    "loaded",
    "weight_hash",
]
