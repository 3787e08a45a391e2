"""Small models whose group of blocks is repeated: a universal transformer, and MoEUT with experts.

Importing this package makes them known to the library's ``AutoConfig`` and ``AutoModelForCausalLM``, as
``bathyscope.load`` does when it meets one of their checkpoints.
"""

from transformers import AutoConfig, AutoModel, AutoModelForCausalLM

from bathyscope_lab.models.moeut import MoeutConfig, MoeutForCausalLM, MoeutModel
from bathyscope_lab.models.universal import (
    UniversalTransformerConfig,
    UniversalTransformerForCausalLM,
    UniversalTransformerModel,
)

__all__ = [
    "MoeutConfig",
    "MoeutForCausalLM",
    "MoeutModel",
    "UniversalTransformerConfig",
    "UniversalTransformerForCausalLM",
    "UniversalTransformerModel",
]

for _config, _decoder, _model in (
    (UniversalTransformerConfig, UniversalTransformerModel, UniversalTransformerForCausalLM),
    (MoeutConfig, MoeutModel, MoeutForCausalLM),
):
    AutoConfig.register(_config.model_type, _config, exist_ok=True)
    AutoModel.register(_config, _decoder, exist_ok=True)
    AutoModelForCausalLM.register(_config, _model, exist_ok=True)
