"""Every declaration of every family, checked against live tiny models by hooks on the sites it names."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from operator import attrgetter
from pathlib import Path

import pytest
import torch
from support import naive, zoo
from support.looped import LOOPED
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.models.auto.configuration_auto import (
    CONFIG_MAPPING_NAMES,
    SPECIAL_MODEL_TYPE_TO_MODULE_NAME,
)

from bathyscope.model.anatomy import families as package
from bathyscope.model.anatomy.family import Family, Site
from bathyscope.model.anatomy.registry import families, family_for, index

MEASURABLE = [pytest.param(name, id=name) for name in zoo.names()]
WITH_PARTS = [pytest.param(entry.name, id=entry.name) for entry in zoo.entries() if entry.parts]


@cache
def stream(name: str) -> Tensor:
    """The residual stream [L+1, T, d] of the first prompt."""
    model = zoo.build(name)
    return naive.boundaries(model, naive.blocks_of(model), zoo.prompts(model)[0])


@pytest.mark.parametrize("name", MEASURABLE)
def test_the_zoo_model_gets_the_family_it_names(name: str) -> None:
    family = naive.family_of(zoo.build(name))
    assert family.name == zoo.entry(name).family
    assert family.refused is None


@pytest.mark.parametrize("name", MEASURABLE)
def test_every_block_is_called_once_and_in_order(name: str) -> None:
    model = zoo.build(name)
    blocks = naive.blocks_of(model)
    config = model.config.get_text_config()
    idle = config.cross_attention_layers if naive.family_of(model).idle else ()
    assert len(blocks) == config.num_hidden_layers - len(idle)
    called: list[int] = []
    handles = [
        block.register_forward_pre_hook(lambda *_, number=number: called.append(number))
        for number, block in enumerate(blocks)
    ]
    naive.logits(model, zoo.prompts(model)[0])
    for handle in handles:
        handle.remove()
    assert called == list(range(len(blocks)))


@pytest.mark.each
@pytest.mark.parametrize("name", WITH_PARTS)
def test_contributions_sum_to_the_change_of_the_stream(name: str) -> None:
    model = zoo.build(name)
    blocks, family, h = naive.blocks_of(model), naive.family_of(model), stream(name)
    found = naive.contributions(model, blocks, zoo.prompts(model)[0])
    assert {"attention", "mlp"} <= set(found)
    for kind in ("attention", "mlp"):
        assert found[kind].abs().amax(dim=(1, 2)).min() > 1e-3, f"{kind} adds nothing in some block"
    added = h[:-1] + sum(found.values())
    if family.block_scale is not None:
        added = added * torch.stack([getattr(block, family.block_scale) for block in blocks]).view(-1, 1, 1)
    gap = (h[1:] - added).norm(dim=-1) / (h[1:] - h[:-1]).norm(dim=-1)
    assert gap.max() < 1e-5


@pytest.mark.parametrize("name", [entry.name for entry in zoo.entries() if not entry.parts])
def test_parts_are_not_declared_where_they_cannot_be_separated(name: str) -> None:
    sites = naive.sites_of(zoo.build(name))
    assert sites["attention"] == sites["mlp"] == ()


@pytest.mark.parametrize("name", WITH_PARTS)
def test_sites_are_called_once_a_block(name: str) -> None:
    model = zoo.build(name)
    counts: dict[tuple[int, str], int] = {}
    handles = []
    for number, block in enumerate(naive.blocks_of(model)):
        for kind, sites in naive.sites_of(model).items():
            for module, site in naive.modules_at(block, sites):
                key = (number, f"{kind} {site.path}")
                counts[key] = 0
                handles.append(
                    module.register_forward_pre_hook(lambda *_, key=key: counts.__setitem__(key, counts[key] + 1))
                )
    naive.logits(model, zoo.prompts(model)[0])
    for handle in handles:
        handle.remove()
    assert set(counts.values()) == {1}


@pytest.mark.parametrize("name", WITH_PARTS)
def test_parallel_is_declared_where_the_mlp_does_not_read_the_attention(name: str) -> None:
    model = zoo.build(name)
    blocks, ids = naive.blocks_of(model), zoo.prompts(model)[0]
    before = naive.contributions(model, blocks, ids)["mlp"][0]
    with naive.skipping(model, blocks, 0, range(len(ids)), "attention"):
        after = naive.contributions(model, blocks, ids)["mlp"][0]
    declared = naive.family_of(model).parallel
    parallel = getattr(model.config, declared) if isinstance(declared, str) else declared
    assert torch.equal(before, after) == parallel


COLLAPSED = ("deepseek_v4", "gemma3n", "gemma3n_multimodal", "hy_v4", "inkling2")
"""Families whose streams are collapsed by more than a module, which tests of streams compare with the own forward."""


@pytest.mark.each
@pytest.mark.parametrize("name", [entry.name for entry in zoo.entries() if entry.family not in COLLAPSED])
def test_final_norm_and_head_give_the_logits(name: str) -> None:
    model = zoo.build(name)
    expected = naive.logits(model, zoo.prompts(model)[0])
    torch.testing.assert_close(head_path(model, stream(name)[-1]), expected, rtol=1e-5, atol=1e-5)


def head_path(model: PreTrainedModel, h: Tensor) -> Tensor:
    """Logits [T, V] of a final state [T, d], by the family's declaration alone."""
    family, config = naive.family_of(model), model.config.get_text_config()
    x = h[None]
    with torch.no_grad():
        for path in (family.final_norm, family.projection, family.head):
            module = attrgetter(path)(model) if path is not None else None
            x = x if module is None else module(x)
    if family.logit_multiplier is not None:
        x = x * getattr(config, family.logit_multiplier)
    if family.logit_divisor is not None:
        x = x / getattr(config, family.logit_divisor)
    cap = getattr(config, family.logit_softcap) if family.logit_softcap is not None else None
    return (x if cap is None else cap * torch.tanh(x / cap))[0]


@pytest.mark.parametrize("family", families(), ids=lambda family: family.name)
def test_every_family_covers_model_types_and_has_a_tiny_model(family: Family) -> None:
    assert family.model_types
    assert all(family_for(model_type) is family for model_type in family.model_types)
    known = set(CONFIG_MAPPING_NAMES) | set(SPECIAL_MODEL_TYPE_TO_MODULE_NAME)
    assert set(family.model_types) <= known, "a model type that transformers does not know"
    shown = {entry.family for refused in (False, True) for entry in zoo.entries(refused=refused)}
    shown |= {*LOOPED}
    # what is refused by its type alone needs no weights, and ProphetNet is refused by a check (test_streams)
    assert family.refused or family.name in {*shown, "prophetnet"}


def test_every_table_is_found_by_the_registry() -> None:
    tables = {path.stem for path in Path(package.__path__[0]).glob("*.py")} - {"__init__"}
    declared = {family.name for table in tables for family in import_module(f"{package.__name__}.{table}").FAMILIES}
    assert {family.name for family in families()} == declared


def test_an_unknown_model_type_has_no_family() -> None:
    assert family_for("a-model-of-tomorrow") is None


def test_two_families_may_not_share_a_model_type() -> None:
    first, second = Family("one", ("shared",)), Family("two", ("own", "shared"))
    with pytest.raises(ValueError, match=r"'shared' is claimed by 'one' and by 'two'; leave it in one of them"):
        index((first, second))


def test_two_families_may_not_share_a_name() -> None:
    with pytest.raises(ValueError, match=r"two families are named 'one'; give each its own name"):
        index((Family("one", ("a",)), Family("one", ("b",))))


REASONS = {
    "blt": "number of patches depends on the text",
    "cpmant": "every token attends to all others",
    "gemma4_assistant": "drafts for another model",
    "musicgen": "its decoder alone is the causal model",
    "xlm": "none of its modules is a block",
}


def test_refused_families_say_why() -> None:
    refused = {family.name: family.refused for family in families() if family.refused is not None}
    assert set(refused) == set(REASONS)
    for name, reason in refused.items():
        assert REASONS[name] in reason
        assert not reason.endswith(".")
        assert reason[0].islower()


@pytest.mark.parametrize("name", zoo.names(refused=True))
def test_refused_models_resolve_to_a_refused_family(name: str) -> None:
    family = naive.family_of(zoo.build(name))
    assert family.name == zoo.entry(name).family
    assert family.refusal(zoo.entry(name).config())


@pytest.mark.parametrize("family", [family for family in families() if family.requires], ids=lambda family: family.name)
def test_families_for_some_settings_alone_say_which(family: Family) -> None:
    attribute, allowed, reason = family.requires
    config = PreTrainedConfig()
    setattr(config, attribute, allowed)
    assert family.refusal(config) == ""
    setattr(config, attribute, [allowed, allowed])
    assert family.refusal(config) == ""
    setattr(config, attribute, [allowed, "another"])
    message = f"with {attribute}=[{allowed!r}, 'another'] {reason}. It can with {attribute}={allowed!r}"
    assert family.refusal(config) == message
    assert reason[0].islower()
    assert not reason.endswith(".")


def test_a_site_lists_its_paths() -> None:
    assert Site("mlp").paths == ("mlp",)
    assert Site(("self_attn", "conv")).paths == ("self_attn", "conv")
