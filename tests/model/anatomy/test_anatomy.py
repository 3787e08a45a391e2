"""What is read off a live model: widths, types, what cannot run at all."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from support import naive, waves, zoo

from bathyscope.errors import ModelError
from bathyscope.model import load, loaded
from bathyscope.model.anatomy.resolving import resolve


def test_sizes() -> None:
    anatomy = waves.loaded("opt_post_norm").anatomy
    assert (anatomy.n_blocks, anatomy.width, anatomy.vocabulary) == (5, 64, 120)
    assert repr(anatomy) == "<Anatomy of opt (OPTForCausalLM): 5 blocks × width 64>"
    # the embedding is narrower than the stream there
    assert anatomy.model.get_input_embeddings().weight.shape == (120, 32)


@pytest.mark.parametrize(
    ("name", "parallel"), [("llama", False), ("gpt_neox", True), ("gpt_neox_serial", False), ("falcon", True)]
)
def test_parallel_is_a_matter_of_the_configuration(name: str, parallel: bool) -> None:
    assert waves.loaded(name).anatomy.parallel is parallel


@pytest.mark.parametrize(("name", "length"), [("llama", None), ("bloom", 2), ("openai-gpt", 1)])
def test_what_blocks_return(name: str, length: int | None) -> None:
    assert waves.loaded(name).anatomy.returns == (length,) * 5


@pytest.mark.parametrize("name", ["mamba", "mamba2", "falcon_mamba"])
def test_a_stream_kept_in_float32_stays_so_in_every_row(name: str) -> None:
    """Weights in bfloat16, stream in float32: a row that were rounded between blocks would show."""
    hf = zoo.entry(name).build(dtype=torch.bfloat16)
    model = load(hf)
    assert (model.anatomy.dtype, model.dtype) == (torch.float32, torch.bfloat16)
    assert model.checks.no_op == 0
    (ids,) = zoo.prompts(hf, (14,))
    blocks, base = naive.blocks_of(hf), naive.logits(hf, ids)
    found = waves.run(model, [ids], {"drop": None})["drop"]
    for dropped in range(1, 5):
        changed, _ = naive.run_schedule(hf, blocks, ids, naive.drop_order(5, dropped))
        assert float(found.kl[0, dropped]) == pytest.approx(naive.kl(base, changed)[:-1].mean().item(), rel=2e-2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma2", "falcon", "bloom", "mpt", "olmo2", "granite", "qwen3_moe"])
def test_low_precision_passes_the_checks(name: str, dtype: torch.dtype) -> None:
    checks = load(zoo.entry(name).build(dtype=dtype)).checks
    assert checks.no_op == 0
    assert checks.parts
    assert checks.tails


def test_a_model_that_cannot_run_says_so() -> None:
    """Grouped experts have no kernel for double precision."""
    with pytest.raises(ModelError) as caught:
        load(zoo.entry("mixtral").build(dtype=torch.float64))
    message = str(caught.value)
    assert message.startswith(
        "llama (MixtralForCausalLM): the model's own forward of 2 tokens fails with RuntimeError:"
    )
    assert message.endswith("try another dtype or attention implementation.")


def test_blocks_that_never_run_are_refused() -> None:
    """A list that the forward stops short of (``num_hidden_layers`` was lowered, the list was not)."""
    hf = zoo.entry("llama").build()
    hf.config.num_hidden_layers = 3
    refused = r"llama: blocks \[3, 4\] of model\.layers did not run in a .* configuration says 3 .* has 5: set"
    with pytest.raises(ModelError, match=refused):
        load(hf)


def test_a_configuration_that_changed_is_not_said_of_the_weights() -> None:
    hf = zoo.entry("llama").build()
    model = load(hf)
    hf.config.num_hidden_layers = 3
    with pytest.warns(UserWarning, match=r"^The settings of .*, and maybe its weights"), pytest.raises(ModelError):
        loaded(model)


def test_weights_of_two_dtypes_are_named() -> None:
    hf = zoo.entry("llama").build()
    hf.model.layers[2].half()
    places = r"float32 from model\.embed_tokens\.weight on, float16 from model\.layers\.2\.\S+ on\); convert"
    with pytest.raises(ModelError, match=rf"have several dtypes \({places}"):
        load(hf)


def test_a_wrapper_of_several_devices_is_named() -> None:
    with pytest.raises(
        ModelError, match=r"DataParallel only wraps the model, a LlamaForCausalLM; .*load\(model\.module"
    ):
        load(torch.nn.DataParallel(zoo.entry("llama").build()))  # type: ignore[arg-type]


def test_the_family_of_a_multimodal_wrapper_is_found_by_its_own_type_first() -> None:
    anatomy = waves.loaded("gemma3_multimodal").anatomy
    assert anatomy.family.name == "gemma3_multimodal"
    assert anatomy.n_blocks == 5
    assert resolve(anatomy.model, replace(anatomy.family)).width == 64
