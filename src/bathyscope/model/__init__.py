"""Loading a causal language model, checking that its anatomy holds, and knowing what it is."""

from bathyscope.model.devices import as_device, as_dtype
from bathyscope.model.loading import anatomy_of, as_it_is, load, load_config
from bathyscope.model.model import Model
from bathyscope.model.weights import weight_hash

__all__ = ["Model", "anatomy_of", "as_device", "as_dtype", "as_it_is", "load", "load_config", "weight_hash"]
