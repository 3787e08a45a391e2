"""The proof refuses configurations that mean something else than the schedule, and says what differs."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from support import zoo

from bathyscope.errors import ModelError
from bathyscope.schedule import Schedule
from bathyscope.surgery.checkpoint.configuration import rewritten
from bathyscope.surgery.checkpoint.proof import require_same


def made(name: str, text: str, **changes: Any) -> tuple[Any, Any, Schedule]:
    """A configuration, its rewritten one with some entries changed, and the schedule."""
    config = zoo.entry(name).config()
    schedule = Schedule.parse(text, 5)
    other = copy.deepcopy(rewritten(config, schedule))
    for key, value in changes.items():
        setattr(other, key, value)
    return config, other, schedule


@pytest.mark.parametrize(
    ("name", "text", "changes"),
    [
        # the list of window types left as it was, and cut at the end
        ("gpt_oss", "drop:0", {"layer_types": ["sliding_attention", "full_attention"] * 2}),
        ("cohere2", "drop:1", {"layer_types": ["sliding_attention", "full_attention"] * 2}),
        ("smollm3", "drop:0", {"no_rope_layers": [1, 1, 1, 0]}),
        (
            "gpt_neo",
            "drop:0",
            {"attention_types": [[["global", "local"], 2]], "attention_layers": ["global", "local"] * 2},
        ),
        ("bamba", "drop:0", {"attn_layer_indices": [1]}),
        ("deepseek_v3", "drop:0", {"first_k_dense_replace": 1}),
        ("minicpm3", "drop:0", {"scale_depth": 2.0}),
        ("llama", "drop:0", {"num_hidden_layers": 3}),
        ("llama", "drop:0", {"rms_norm_eps": 1e-2}),
        ("llama", "drop:0", {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}),
        ("mistral", "drop:0", {"sliding_window": 4}),
    ],
)
def test_what_was_not_rewritten_is_found(name: str, text: str, changes: dict[str, Any]) -> None:
    require_same(*made(name, text))
    with pytest.raises(ModelError, match=r"cannot be exported with this order of its blocks|cannot be made of it"):
        require_same(*made(name, text, **changes))


def test_reasons_say_what_differs() -> None:
    for name, text, changes, said in (
        ("llama", "drop:1", {"num_hidden_layers": 3}, "gives 3 blocks where 4 are asked for"),
        ("llama", "drop:1", {"rope_theta": 1.0, "rms_norm_eps": 0.5}, "variance_epsilon is 0.5 there and 1e-06 here"),
        ("deepseek_v3", "drop:0", {"first_k_dense_replace": 1}, "what block 1 is cannot be said of place 0"),
        ("gemma4", "drop:1", {}, "block 3 takes the keys and values of block 1, which would not have run before it"),
    ):
        with pytest.raises(ModelError, match=said):
            require_same(*made(name, text, **changes))
