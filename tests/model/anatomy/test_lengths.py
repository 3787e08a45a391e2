"""Which models may not mix prompts of different lengths, and which cannot go beyond their context."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from support import waves, zoo
from torch import nn

from bathyscope.model.anatomy.independence import depends_on_padding
from bathyscope.model.anatomy.mode import evaluating

PADDING_MATTERS = ["llama_dynamic", "llama_longrope", "phi3_longrope", "deepseek_v32"]
KEYS_BY_RANK = ["deepseek_v4", "deepseek_v4_compressed", "hy_v4", "glm_moe_dsa", "glm_moe_dsa_shared"]
"""They pick keys by rank as the last above does; ties that padding resolves are too rare to be seen in each."""


def test_which_configurations_need_equal_lengths() -> None:
    found = [name for name in zoo.names() if depends_on_padding(zoo.entry(name).config().get_text_config())]
    assert found == PADDING_MATTERS + KEYS_BY_RANK


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        (None, False),
        ({}, False),
        ({"rope_type": "yarn"}, False),
        ({"rope_type": "longrope"}, True),
        ({"type": "dynamic"}, True),
        ({"full_attention": {"rope_type": "default"}, "sliding_attention": {"rope_type": "dynamic"}}, True),
        ({"full_attention": {"rope_type": "default"}}, False),
    ],
)
def test_rotary_parameters_under_any_name(parameters: dict[str, object] | None, expected: bool) -> None:
    for name in ("rope_parameters", "rope_scaling"):
        assert depends_on_padding(SimpleNamespace(**{name: parameters})) == expected


@pytest.mark.parametrize("name", [*PADDING_MATTERS, "deepseek_v4_compressed"])
def test_the_length_of_a_neighbour_really_matters_there(name: str) -> None:
    """The same prompt, alone and padded to more tokens; a rule that were too strict would show here."""
    hf = zoo.entry(name).build()
    (ids,) = zoo.prompts(hf, (10,))
    with torch.no_grad():
        alone = hf(torch.tensor([ids]), use_cache=False).logits
        padded = hf(torch.tensor([ids + [5] * 30]), use_cache=False).logits[:, :10]
    assert (alone - padded).abs().max() > 1e-4


@pytest.mark.parametrize("name", zoo.names(plain=True))
def test_position_tables_are_known_before_they_run_out(name: str) -> None:
    model = waves.loaded(name)
    if model.max_tokens is None:
        assert not model.has_position_table
        return
    assert model.max_tokens <= 1000, "the zoo's contexts are short enough to go beyond"
    longer = torch.full((1, model.max_tokens + 20), 5)
    try:
        with torch.no_grad():
            model.hf(longer, use_cache=False)
        runs = True
    except (IndexError, RuntimeError):
        runs = False
    assert model.has_position_table != runs


def test_evaluation_mode_is_left_as_each_module_was() -> None:
    model = nn.Sequential(nn.Dropout(), nn.Sequential(nn.Dropout(), nn.Dropout()))
    model.train()
    model[1][0].eval()
    inside: list[bool] = []

    def fail() -> None:
        with evaluating(model):
            inside.extend(module.training for module in model.modules())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert inside == [False] * 5
    assert [module.training for module in model.modules()] == [True, True, True, False, True]
