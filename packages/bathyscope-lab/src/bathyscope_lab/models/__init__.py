"""Small models whose group of blocks is repeated: a universal transformer, and MoEUT with experts.

Importing this package makes them known to the library's ``AutoConfig`` and ``AutoModelForCausalLM``, as
``bathyscope.load`` does when it meets one of their checkpoints and asks packages for their families.
"""

from transformers import AutoConfig, AutoModel, AutoModelForCausalLM

from bathyscope.model.anatomy.family import Family
from bathyscope_lab.models.moeut import MoeutConfig, MoeutForCausalLM, MoeutModel
from bathyscope_lab.models.universal import (
    UniversalTransformerConfig,
    UniversalTransformerForCausalLM,
    UniversalTransformerModel,
)

__all__ = [
    "FAMILY",
    "MoeutConfig",
    "MoeutForCausalLM",
    "MoeutModel",
    "UniversalTransformerConfig",
    "UniversalTransformerForCausalLM",
    "UniversalTransformerModel",
]

# Block l is the l-th execution step. Steps that run the same block are modules of their own with the same parameters,
# so that an intervention on one leaves the others alone. A model with blocks that norm the sum has no separable
# contributions.
FAMILY = Family(
    "shared_layers", ("bathyscope_moeut", "bathyscope_universal"), parts_when=("parts_add", True), loops="repeats"
)

for _config, _decoder, _model in (
    (UniversalTransformerConfig, UniversalTransformerModel, UniversalTransformerForCausalLM),
    (MoeutConfig, MoeutModel, MoeutForCausalLM),
):
    AutoConfig.register(_config.model_type, _config, exist_ok=True)
    AutoModel.register(_config, _decoder, exist_ok=True)
    AutoModelForCausalLM.register(_config, _model, exist_ok=True)
