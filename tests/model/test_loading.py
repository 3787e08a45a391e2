"""``load`` with a family or a tokenizer of one's own, and models that have changed since they were loaded."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
import xarray as xr
from support import unknown, zoo
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

import bathyscope
from bathyscope import ModelError, PromptError, StoreError
from bathyscope.model import load, loaded
from bathyscope.model.anatomy.cache import CaptureCache
from bathyscope.model.anatomy.family import Family, Site
from bathyscope.model.anatomy.registry import family_for
from bathyscope.model.anatomy.replay import Replay
from bathyscope.wavefront.engine import Wavefront

IDS = [[5, 6, 7, 8, 9, 10], [9, 8, 7, 6]]
OWN = Family(
    name="stacked",
    model_types=("bathyscope-test-unknown",),
    blocks="trunk.stack",
    final_norm="trunk.last_norm",
    attention=Site("token_mixer_attention"),
    mlp=Site("feed_forward"),
    head="unembed",
)


def surveyed(model: Any, **options: Any) -> bathyscope.Run:
    return bathyscope.survey(model, IDS, ["residual", "drop"], progress=False, **options)


def test_a_tokenizer_given_as_text() -> None:
    with pytest.raises(ModelError) as caught:
        load(zoo.build("llama"), tokenizer="gpt2")
    assert str(caught.value) == (
        "tokenizer='gpt2' is a text; give the tokenizer itself (transformers.AutoTokenizer.from_pretrained('gpt2'))."
    )


@pytest.mark.parametrize("given", [3, len, transformers.PreTrainedTokenizerFast, Tokenizer(WordLevel({"a": 0}))])
def test_what_is_no_tokenizer(given: Any) -> None:
    with pytest.raises(ModelError, match=r"^tokenizer=.* is no tokenizer of transformers; give what .*from_pretrained"):
        load(zoo.build("llama"), tokenizer=given)


def test_tokens_that_the_embedding_has_and_the_head_lacks() -> None:
    hf = zoo.entry("llama").build()
    rows = hf.lm_head.weight.shape[0]
    hf.model.embed_tokens = torch.nn.Embedding(rows + 88, hf.config.hidden_size)
    model = load(hf)
    assert (model.vocabulary, model.predictable) == (rows + 88, rows)
    bathyscope.survey(model, [[rows + 3, 5, 6, rows - 1]], ["lens"], progress=False)
    with pytest.raises(PromptError, match=rf"token id {rows + 7} \(token 2\) cannot be predicted: .* {rows} rows, and"):
        bathyscope.survey(model, [[5, 6, 7], [5, 6, rows + 7, 8]], ["lens"], progress=False)


# --- families ------------------------------------------------------------------------------------------


def test_a_family_of_ones_own_for_an_unknown_type() -> None:
    hf = unknown.build()
    found, declared = load(hf), load(hf, family=OWN)
    assert found.anatomy.family.name.endswith("(found by search)")
    assert declared.anatomy.family is OWN
    for name in ("residual", "drop"):
        xr.testing.assert_identical(surveyed(found)[name], surveyed(declared)[name])


def test_a_family_of_ones_own_for_a_known_type(saved: Path) -> None:
    known = family_for("llama")
    assert known is not None
    blocks_only = replace(known, name="only blocks", attention=None, mlp=None)
    for given in (saved, zoo.entry("llama").build()):
        model = load(given, family=blocks_only)
        assert model.anatomy.family.name == "only blocks"
        assert not model.checks.parts
    assert load(saved).checks.parts


def test_the_checks_decide_on_a_family_of_ones_own() -> None:
    with pytest.raises(ModelError, match=r"stacked .*: readout identity fails: trunk\.stack\.0\.first_norm and"):
        load(unknown.build(), family=replace(OWN, final_norm="trunk.stack.0.first_norm"))
    with pytest.raises(ModelError, match=r"stacked: blocks='trunk\.stak' of the .* Did you mean 'trunk\.stack'\?"):
        load(unknown.build(), family=replace(OWN, blocks="trunk.stak"))
    with pytest.raises(
        ModelError, match=r"final_norm='trunk\.last_nrm' leads nowhere .* Did you mean 'trunk\.last_norm'\?"
    ):
        load(unknown.build(), family=replace(OWN, final_norm="trunk.last_nrm"))


@pytest.mark.parametrize("name", ["llama", "mixtral", "gpt2"])
def test_attention_and_mlp_that_are_exchanged(name: str) -> None:
    hf = zoo.entry(name).build()
    declared = family_for(name if name == "gpt2" else "llama")
    assert declared is not None
    load(hf, family=replace(declared, name="own"))
    with pytest.raises(
        ModelError, match=r"attention and mlp of the Family .* are exchanged: .*attn .*reads other tokens"
    ):
        load(hf, family=replace(declared, name="own", attention=declared.mlp, mlp=declared.attention))


def test_parts_that_both_read_other_tokens_are_left_alone() -> None:
    hf = zoo.entry("rwkv").build()
    declared = family_for("rwkv")
    assert declared is not None
    load(hf, family=replace(declared, name="own"))
    load(hf, family=replace(declared, name="own", attention=declared.mlp, mlp=declared.attention))


def test_a_family_that_is_none() -> None:
    with pytest.raises(ModelError, match=r"family=.llama. is no Family; give bathyscope\.extend\.Family"):
        load(zoo.build("llama"), family="llama")  # type: ignore[arg-type]


# --- changed since -------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:The weights of .* have changed")
@pytest.mark.parametrize("through", ["data", "in place", "parameter"])
def test_weights_changed_in_memory_are_another_run(through: str, tmp_path: Path) -> None:
    """The old result must not come back from the same folder, nor the new one carry the old hash."""
    hf = zoo.entry("llama").build()
    model = load(hf)
    before = surveyed(model, out=tmp_path / "run")
    weight = hf.model.layers[2].mlp.down_proj.weight
    with torch.no_grad():
        if through == "data":
            weight.data.mul_(2.0)  # leaves no trace in the tensor's version
        elif through == "in place":
            weight.mul_(2.0)
        else:
            hf.model.layers[2].mlp.down_proj.weight = torch.nn.Parameter(2.0 * weight)
    with pytest.raises(StoreError, match="weight_hash: run has"):
        surveyed(model, out=tmp_path / "run")
    after, fresh = surveyed(model), surveyed(load(hf))
    xr.testing.assert_identical(after["residual"], fresh["residual"])
    assert after.manifest["identity"] == fresh.manifest["identity"]
    assert not before["residual"].equals(after["residual"])


def test_changed_weights_are_said_once_where_the_survey_is_called() -> None:
    hf = zoo.entry("llama").build()
    model = load(hf)
    assert loaded(model) is model
    with torch.no_grad():
        hf.lm_head.weight[3] += 1
    with pytest.warns(
        UserWarning, match="The weights or constants of LlamaForCausalLM have changed since it was loaded; it is"
    ) as caught:
        loaded(model)
    assert [one.filename for one in caught] == [__file__]


def test_blocks_that_were_taken_out_since() -> None:
    hf = zoo.entry("llama").build()
    model = load(hf)
    del hf.model.layers[1]
    hf.config.num_hidden_layers = 4
    with pytest.warns(UserWarning, match="have changed since it was loaded"):
        run = surveyed(model)
    assert run["residual"].sizes["block"] == 4


def test_weights_that_became_no_numbers_since(monkeypatch: pytest.MonkeyPatch) -> None:
    hf = zoo.entry("llama").build()
    model = load(hf)
    hf.model.norm.weight.data[0] = float("nan")
    monkeypatch.setattr(Wavefront, "run_convoy", lambda *_, **__: pytest.fail("a block ran"))
    with pytest.raises(
        ModelError, match=r"in model\.norm\.weight \(1 of 64 values\); its weights have changed since it"
    ):
        surveyed(model)


def no_tails(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Replay.run

    def run(replay: Replay, *given: Any, **named: Any) -> torch.Tensor:
        if isinstance(cache := named.get("cache"), CaptureCache) and cache.get_seq_length():
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return own(replay, *given, **named)

    monkeypatch.setattr(Replay, "run", run)


def no_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    def forward(*_: Any, **__: Any) -> None:
        raise RuntimeError("CUDA error: out of memory")

    monkeypatch.setattr(transformers.LlamaForCausalLM, "forward", forward)


def no_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Replay, "run", lambda *_, **__: torch.empty(1 << 55, dtype=torch.uint8))


@pytest.mark.parametrize("full", [no_block, no_tails, no_forward])
def test_a_device_without_room_for_the_checks_is_no_fault_of_the_models(
    full: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor a reason to compute full rows in the place of tails."""
    hf = zoo.entry("llama").build()
    full(monkeypatch)
    with pytest.raises(ModelError) as caught:
        load(hf)
    assert re.fullmatch(
        r"What the checks of LlamaForCausalLM compute does not fit into the memory of cpu, where [\d.]+ GB are free\. "
        r"Give shorter prompts, a narrower dtype .*",
        str(caught.value),
    )


def test_a_device_without_room_for_the_weights(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 16.00 GiB.")

    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", full)
    with pytest.raises(ModelError) as caught:
        load(saved)
    assert str(caught.value).startswith(f"{saved} does not fit into the memory of cpu, where ")
    assert str(caught.value).endswith("weights can be streamed (placement='stream').")


@pytest.mark.parametrize("given", [None, 3, ["gpt2"]])
def test_what_is_no_model_is_refused_without_asking_the_hub(given: Any) -> None:
    with pytest.raises(
        ModelError, match=r"load\(\) was given .*, which is no model; give a checkpoint folder, a hub nam"
    ):
        load(given)


def test_what_is_no_model_is_named_in_a_line() -> None:
    with pytest.raises(ModelError, match=r"^load\(\) was given a LlamaConfig, which is no model; give"):
        load(transformers.LlamaConfig())  # type: ignore[arg-type]


def test_a_loaded_model_is_not_loaded_again() -> None:
    with pytest.raises(ModelError, match=r"load\(\) was given a Model, which is loaded already; give"):
        load(load(zoo.build("llama")))


# --- attention -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("attn", ["eager", "sdpa"])
def test_attention_is_computed_as_asked(attn: str, saved: Path) -> None:
    model = load(saved, attn=attn)  # type: ignore[arg-type]
    assert model.hf.config._attn_implementation == attn
    run = bathyscope.survey(model, IDS, ["drop"], progress=False)
    assert run.manifest["identity"]["attention"] == attn


def test_attention_that_there_is_not(saved: Path) -> None:
    with pytest.raises(bathyscope.OptionError) as caught:
        load(saved, attn="spda")  # type: ignore[arg-type]
    assert str(caught.value) == (
        "attn='spda' is unknown. Did you mean 'sdpa'? Allowed: eager, sdpa, flash_attention_2, flash_attention_3, "
        "flex_attention."
    )
    with pytest.raises(ModelError, match=r"attn= is for models loaded by name; .*set_attn_implementation\('eager'\)"):
        load(zoo.build("llama"), attn="eager")


@pytest.mark.parametrize(
    "argument",
    [
        {"dtype": "bfloat16"},
        {"device": "cuda"},
        {"revision": "main"},
        {"trust_remote_code": True},
        {"placement": "stream"},
        {"window": 2},
        {"stream": True},
        {"attn": "eager"},
        {"base": "other"},
        {"tensor_parallel": 2},
    ],
    ids=str,
)
def test_how_to_load_is_refused_of_a_model_that_is_loaded_already(argument: dict[str, Any]) -> None:
    model = load(zoo.build("llama"))
    assert bathyscope.check(model)["accepted"]
    with pytest.raises(ModelError, match=rf"^check\(\) was given {next(iter(argument))}=.*loaded already"):
        bathyscope.check(model, **argument)


# --- tokenizers of other models ------------------------------------------------------------------------


def test_a_tokenizer_that_covers_little_of_the_model(recwarn: pytest.WarningsRecorder) -> None:
    hf = zoo.entry("llama").build()
    rows = hf.config.vocab_size
    for size in (rows // 2, rows // 2 - 1):
        words = WordLevel({str(number): number for number in range(size)}, unk_token="0")
        load(hf, tokenizer=transformers.PreTrainedTokenizerFast(tokenizer_object=Tokenizer(words)))
    messages = [str(warning.message) for warning in recwarn if "tokenizer that was given" in str(warning.message)]
    assert len(messages) == 1
    assert f"has {rows // 2 - 1} tokens and the embedding of LlamaForCausalLM {rows} rows" in messages[0]


def test_prompts_that_a_model_predicts_worse_than_equal_guesses(recwarn: pytest.WarningsRecorder) -> None:
    hf = zoo.entry("llama").build()
    bathyscope.survey(hf, IDS, ["lens"], progress=False, control="untrained")
    assert not [str(warning.message) for warning in recwarn if "worse than equal guesses" in str(warning.message)]
    with torch.no_grad():
        hf.lm_head.weight *= 1000
    with pytest.warns(
        UserWarning, match=r"LlamaForCausalLM predicts the prompts' next tokens worse than equal guesses"
    ):
        bathyscope.survey(hf, IDS, ["lens"], progress=False)
