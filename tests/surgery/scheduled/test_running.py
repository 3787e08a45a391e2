"""``scheduled``: the real model runs a schedule exactly, with and without a cache, and nothing is left behind."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
import torch
from support import naive, waves, zoo
from support.rounding import bound_of_shares
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedModel, StaticCache

import bathyscope
from bathyscope.errors import ModelError, OptionError
from bathyscope.model import Model
from bathyscope.schedule import Schedule
from bathyscope.surgery.scheduled.running import scheduled
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.engine import Wavefront
from bathyscope.wavefront.observer import Probe
from bathyscope.wavefront.probe import FinalStates
from bathyscope.wavefront.rows import ScheduleRow

SCHEDULES = ("drop:0", "swap:2", "repeat:1+2")
FAMILIES = (
    *("llama", "mistral", "ministral", "qwen2_windows", "diffllama", "smollm3_windows", "phi3", "gpt2", "gpt_neo"),
    *("gpt_neox", "opt", "bloom", "mpt", "falcon", "falcon_alibi", "phi", "cohere2", "ctrl", "olmo2", "olmo3"),
    *("gemma2", "gemma3", "gemma4_plain", "gemma4_unified", "gemma3_multimodal", "granite", "mixtral", "deepseek_v3"),
    *("lfm2", "lfm3", "jamba", "qwen3_next", "falcon_h1", "granitemoehybrid", "mamba", "mamba2", "nemotron_h"),
    *("zamba2", "modernbert-decoder", "universal", "moeut"),
)
ALTERNATING = ("ministral", "gemma2", "gemma3", "olmo3", "cohere2", "cwm", "exaone4", "granite_swa")
WITHOUT_CACHE = {"recurrent_gemma": "repeat:1+2", "bamba": "drop:1", "deepseek_v32": "swap:2"}


class Final(Probe):
    """Keeps the final states of its rows."""

    def finish(self, final: FinalStates) -> None:
        self.states = final


def ids_of(model: Model, lengths: tuple[int, ...] = (17, 17)) -> Tensor:
    return torch.tensor(zoo.prompts(model.hf, lengths))


def logits_of(hf: PreTrainedModel, ids: Tensor, **given: Any) -> Tensor:
    with torch.no_grad():
        return hf(ids, use_cache=False, **given).logits


def naively(name: str, ids: Tensor, schedule: Schedule) -> Tensor:
    reference = zoo.build(name)
    blocks = naive.blocks_of(reference)
    return torch.stack([naive.run_schedule(reference, blocks, own, schedule.order)[0] for own in ids.tolist()])


def wavefront(model: Model, ids: Tensor, schedule: Schedule) -> Tensor:
    row = ScheduleRow(schedule)
    probe = Final([row])
    Wavefront(model.anatomy, tails=False).run(Batch.of(ids.tolist()), [probe])
    with torch.no_grad():
        return model.anatomy.readout(probe.states.full[row])


def greedy(hf: PreTrainedModel, ids: Tensor, **given: Any) -> tuple[Tensor, Tensor]:
    """Tokens and each step's logits [steps, batch, V] of five greedy steps."""
    out = hf.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=5,
        do_sample=False,
        pad_token_id=0,
        eos_token_id=None,
        return_dict_in_generate=True,
        output_logits=True,
        **given,
    )
    return out.sequences, torch.stack(out.logits)


def edited(name: str, order: Sequence[int], permute: bool) -> PreTrainedModel:
    """A model whose list of blocks was edited by hand, with or without its list of window types."""
    model = zoo.entry(name).build()
    parent, attribute = naive.family_of(model).blocks.rsplit(".", 1)
    blocks = naive.blocks_of(model)
    setattr(attrgetter(parent)(model), attribute, nn.ModuleList(blocks[index] for index in order))
    if permute:
        model.config.layer_types = [model.config.layer_types[index] for index in order]
    model.config.num_hidden_layers = len(order)
    return model


def gap(found: Tensor, wanted: Tensor) -> float:
    return float((found - wanted).abs().max() / wanted.abs().max())


@pytest.mark.parametrize("name", zoo.swept(FAMILIES, zoo.FEWER))
def test_logits_are_those_of_one_forward_per_schedule_and_of_the_wavefront(name: str) -> None:
    model = waves.loaded(name)
    ids = ids_of(model)
    for text in SCHEDULES:
        schedule = Schedule.parse(text, model.n_blocks)
        with scheduled(model, schedule) as hf:
            found = logits_of(hf, ids)
        assert gap(found, naively(name, ids, schedule)) < bound_of_shares(model.hf), text
        assert gap(found, wavefront(model, ids, schedule)) < bound_of_shares(model.hf), text


@pytest.mark.parametrize("name", zoo.swept(FAMILIES, zoo.FEWER))
def test_generate_gives_the_same_with_and_without_a_cache(name: str) -> None:
    model = waves.loaded(name)
    ids = ids_of(model, (9,))
    plain = logits_of(model.hf, ids)[:, -1]
    for text in ("drop:1", "swap:2", "repeat:1+2"):
        with scheduled(model, text) as hf:
            cached, cached_logits = greedy(hf, ids, use_cache=True)
            whole, logits = greedy(hf, ids, use_cache=False)
        assert torch.equal(cached, whole), text
        assert gap(cached_logits, logits) < 1e-3, text
        assert gap(logits[0], plain) > 1e-2, text


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma2", "mixtral", "jamba", "falcon"])
def test_the_standard_schedule_is_the_untouched_model_bit_for_bit(name: str) -> None:
    model = waves.loaded(name)
    ids = ids_of(model)
    expected = logits_of(model.hf, ids)
    with scheduled(model, "standard") as hf:
        assert torch.equal(logits_of(hf, ids), expected)


@pytest.mark.parametrize("name", zoo.swept(ALTERNATING))
@pytest.mark.parametrize("text", ["drop:1", "swap:2"])
def test_arguments_follow_the_block_or_the_slot(name: str, text: str) -> None:
    """By block, as with the list of window types permuted along; by slot, as with the list of blocks edited alone."""
    model = waves.loaded(name)
    ids, order = ids_of(model), Schedule.parse(text, model.n_blocks).order
    with scheduled(model, text) as hf:
        by_block, tokens = logits_of(hf, ids), greedy(hf, ids[:1], use_cache=True)[0]
    with scheduled(model, text, arguments="slot") as hf:
        by_slot, tokens_by_slot = logits_of(hf, ids), greedy(hf, ids[:1], use_cache=True)[0]
    permuted, alone = edited(name, order, permute=True), edited(name, order, permute=False)
    assert gap(by_block, logits_of(permuted, ids)) < 1e-5
    assert gap(by_slot, logits_of(alone, ids)) < 1e-5
    assert torch.equal(tokens, greedy(permuted, ids[:1], use_cache=False)[0])
    assert torch.equal(tokens_by_slot, greedy(alone, ids[:1], use_cache=False)[0])
    assert gap(by_block, by_slot) > 1e-2


@pytest.mark.parametrize("name", ["llama", "gpt2", "mistral"])
def test_both_readings_agree_where_all_blocks_get_the_same_arguments(name: str) -> None:
    model = waves.loaded(name)
    ids = ids_of(model)
    with scheduled(model, "swap:1", arguments="slot") as hf:
        by_slot = logits_of(hf, ids)
    with scheduled(model, "swap:1") as hf:
        assert torch.equal(by_slot, logits_of(hf, ids))


def test_batches_may_be_padded() -> None:
    model, order = waves.loaded("gemma2"), Schedule.parse("swap:2", 5).order
    ids = ids_of(model)
    mask = torch.ones_like(ids)
    mask[1, :7] = 0
    other = edited("gemma2", order, permute=True)
    with scheduled(model, "swap:2") as hf:
        found = logits_of(hf, ids, attention_mask=mask)
        tokens = hf.generate(ids, attention_mask=mask, max_new_tokens=5, do_sample=False, pad_token_id=0)
    assert gap(found[1, 7:], logits_of(other, ids, attention_mask=mask)[1, 7:]) < 1e-5
    expected = other.generate(
        ids, attention_mask=mask, max_new_tokens=5, do_sample=False, pad_token_id=0, use_cache=False
    )
    assert torch.equal(tokens, expected)


def snapshot(model: nn.Module) -> dict[str, Any]:
    """Everything a module holds, by name: attributes, hooks, and which child is where."""
    found: dict[str, Any] = {}
    for path, module in model.named_modules():
        for key, value in vars(module).items():
            if key == "_output_capturing_hooks_installed" or isinstance(value, Tensor):
                continue
            found[f"{path}.{key}"] = dict(value) if isinstance(value, dict) else value
    return found


def assert_same_modules(model: nn.Module, before: dict[str, Any]) -> None:
    after = snapshot(model)
    assert after.keys() == before.keys()
    assert [key for key in before if after[key] is not before[key] and after[key] != before[key]] == []


@pytest.mark.parametrize("name", ["llama", "gemma3", "gpt2", "jamba", "gemma4_multimodal"])
def test_nothing_is_left_behind(name: str) -> None:
    model = bathyscope.load(zoo.entry(name).build())
    hf, ids = model.hf, ids_of(model)
    hf.train()
    weights = {key: value.clone() for key, value in hf.state_dict().items()}
    config, before = copy.deepcopy(hf.config.to_dict()), snapshot(hf)
    listed = naive.blocks_of(hf)

    with scheduled(model, "repeat:1") as inside:
        assert inside is hf
        assert inside.training
        inside.eval()
        greedy(inside, ids, use_cache=True)
        inside.train()
    with pytest.raises(ZeroDivisionError), scheduled(model, "drop:2"):
        raise ZeroDivisionError

    assert naive.blocks_of(hf) is listed
    assert_same_modules(hf, before)
    assert hf.config.to_dict() == config
    assert hf.state_dict().keys() == weights.keys()
    assert all(torch.equal(value, weights[key]) for key, value in hf.state_dict().items())
    hf.eval()
    assert torch.equal(logits_of(hf, ids), logits_of(zoo.build(name), ids))


def test_an_error_in_a_forward_or_before_entry_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    model = bathyscope.load(zoo.entry("gemma2").build())
    hf, ids = model.hf, ids_of(model)
    expected, before = logits_of(hf, ids), snapshot(hf)

    def failing(*_: Any) -> None:
        raise ZeroDivisionError

    with scheduled(model, "swap:1") as inside:
        swapped = logits_of(inside, ids)
        hook = model.anatomy.blocks[2].mlp.register_forward_hook(failing)
        with pytest.raises(ZeroDivisionError):
            greedy(inside, ids, use_cache=True)
        hook.remove()
        assert torch.equal(logits_of(inside, ids), swapped)
    with monkeypatch.context() as patch:
        patch.setattr("bathyscope.surgery.scheduled.running.expected_logits", lambda *_: torch.ones(1))
        with pytest.raises(ModelError, match="does not run this schedule"), scheduled(model, "swap:1"):
            pytest.fail("entered")

    assert_same_modules(hf, before)
    assert torch.equal(logits_of(hf, ids), expected)


def test_weights_keep_their_names_inside() -> None:
    model = waves.loaded("llama")
    names = [name for name, _ in model.hf.named_parameters()]
    weights = model.hf.state_dict().keys()
    with scheduled(model, "drop:1") as hf:
        assert [name for name, _ in hf.named_parameters()] == names
        assert hf.state_dict().keys() == weights


def test_gradients_flow_through_the_blocks_that_run() -> None:
    model = bathyscope.load(zoo.entry("llama").build())
    with scheduled(model, "drop:1") as hf:
        hf(ids_of(model)).logits.square().mean().backward()
    given = [block.self_attn.q_proj.weight.grad for block in model.anatomy.blocks]
    assert [grad is None for grad in given] == [False, True, False, False, False]


def test_hidden_states_and_attention_are_those_of_the_slots() -> None:
    model, schedule = bathyscope.load(zoo.entry("llama").build(attn="eager")), Schedule.parse("repeat:1+2", 5)
    ids = ids_of(model, (9,))
    with torch.no_grad(), scheduled(model, schedule) as hf:
        out = hf(ids, output_hidden_states=True, output_attentions=True)
    reference = zoo.build("llama")
    _, steps = naive.run_schedule(reference, naive.blocks_of(reference), ids[0].tolist(), schedule.order)
    assert len(out.hidden_states) == 8
    assert len(out.attentions) == 7
    for found, wanted in zip(out.hidden_states[1:-1], steps[:-1]):
        torch.testing.assert_close(found[0], wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("asked", ["output_hidden_states", "output_attentions"])
def test_hidden_states_are_refused_where_the_models_own_loop_collects_them(asked: str) -> None:
    model = waves.loaded("gptj")
    with (
        scheduled(model, "drop:1") as hf,
        pytest.raises(ModelError, match=f"{asked}=True is not available under a schedule: GPTJModel collects"),
    ):
        logits_of(hf, ids_of(model), **{asked: True})
    assert logits_of(model.hf, ids_of(model)).isfinite().all()


@pytest.mark.parametrize("name", ["llama", "gemma2"])
def test_a_static_cache_and_beams_work_too(name: str) -> None:
    model = waves.loaded(name)
    ids = ids_of(model)
    with scheduled(model, "repeat:1+2") as hf:
        whole = greedy(hf, ids, use_cache=False)[0]
        assert torch.equal(greedy(hf, ids, cache_implementation="static")[0], whole)
        beams = {"num_beams": 3, "max_new_tokens": 6, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
        assert torch.equal(hf.generate(ids, use_cache=True, **beams), hf.generate(ids, use_cache=False, **beams))


def test_a_cache_filled_under_another_order_is_refused() -> None:
    model = waves.loaded("llama")
    ids = ids_of(model)
    with torch.no_grad():
        plain = model.hf(ids, use_cache=True).past_key_values
        with scheduled(model, "drop:1") as hf, pytest.raises(ModelError, match="filled under another order"):
            hf(ids, past_key_values=plain)
        static = StaticCache(model.hf.config, max_cache_len=40)
        with scheduled(model, "drop:1") as hf:
            hf(ids, past_key_values=static)
        static.reset()
        with scheduled(model, "swap:1") as hf, pytest.raises(ModelError, match="begin with a new cache"):
            hf(ids, past_key_values=static)


@pytest.mark.parametrize("name", ["rwkv", "xlstm", "reformer"])
def test_state_outside_the_librarys_cache_is_refused(name: str) -> None:
    model = waves.loaded(name)
    with scheduled(model, "swap:1") as hf:
        with pytest.raises(ModelError, match=r"keeps what it computed of earlier tokens in .*use_cache=False"):
            hf(ids_of(model), use_cache=True)
        found = logits_of(hf, ids_of(model))
    assert gap(found, naively(name, ids_of(model), Schedule.parse("swap:1", model.n_blocks))) < 1e-5


def test_a_second_stream_is_refused_and_the_export_generates() -> None:
    """XLNet's ``generate`` reads a stream of queries: under a schedule it would write other tokens than the export."""
    model = waves.loaded("xlnet")
    with torch.no_grad():
        states = model.hf(ids_of(model), use_mems=True).mems
    with scheduled(model, "drop:1") as hf:
        with pytest.raises(ModelError, match=r"in mems, .*run it with use_mems=False"):
            hf(ids_of(model), mems=states)
        with pytest.raises(ModelError, match=r"off a second stream where target_mapping is given, as generate does"):
            greedy(hf, ids_of(model)[:1], use_mems=False)
        found = logits_of(hf, ids_of(model))
    assert gap(found, naively("xlnet", ids_of(model), Schedule.parse("drop:1", model.n_blocks))) < 1e-5


@pytest.mark.parametrize(("name", "text"), WITHOUT_CACHE.items())
def test_going_on_from_a_cache_is_refused_where_it_changes_the_result(name: str, text: str) -> None:
    """RecurrentGemma keeps states on its modules; two others differ on a cache in the untouched model already."""
    model = waves.loaded(name)
    with scheduled(model, text) as hf:
        with pytest.raises(ModelError, match=r"Going on from a cache changes .* by .*use_cache=False"):
            greedy(hf, ids_of(model), use_cache=True)
        tokens = greedy(hf, ids_of(model), use_cache=False)[0]
    assert tokens.shape == (2, 22)


def test_shared_keys_and_values_find_their_source() -> None:
    model = waves.loaded("gemma4")
    with (
        pytest.raises(ModelError, match="block 3 takes the keys and values of block 1, which would not have run"),
        scheduled(model, "drop:1"),
    ):
        pass
    for text in ("drop:2", "drop:3", "swap:0", "swap:2", "repeat:1+3"):
        schedule = Schedule.parse(text, model.n_blocks)
        with scheduled(model, schedule) as hf:
            found = logits_of(hf, ids_of(model))
            tokens = [greedy(hf, ids_of(model), use_cache=use)[0] for use in (True, False)]
        assert gap(found, naively("gemma4", ids_of(model), schedule)) < bound_of_shares(model.hf)
        assert torch.equal(*tokens)


def test_a_transformers_model_is_taken_as_it_is() -> None:
    hf = zoo.entry("gemma2").build()
    ids = torch.tensor(zoo.prompts(hf, (17, 17)))
    with bathyscope.scheduled(hf, Schedule.standard(5).swap(2)) as inside:
        found = logits_of(inside, ids)
    assert gap(found, naively("gemma2", ids, Schedule.standard(5).swap(2))) < 1e-5


@pytest.mark.parametrize("given", ["model", "transformers"])
def test_a_second_schedule_is_refused(given: str) -> None:
    model = waves.loaded("llama")
    before = logits_of(model.hf, ids_of(model))
    with scheduled(model, "drop:1") as hf:
        dropped = logits_of(hf, ids_of(model))
        with (
            pytest.raises(ModelError, match=r"already runs a schedule.*for example 'drop:3,swap:1'"),
            scheduled(model if given == "model" else hf, "swap:1"),
        ):
            pass
        assert torch.equal(logits_of(hf, ids_of(model)), dropped)
    assert torch.equal(logits_of(model.hf, ids_of(model)), before)


def test_measures_are_taken_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    model = waves.loaded("llama")
    said = r"^This model runs a schedule at the moment \(swap:1\); survey the model outside of sch"
    with scheduled(model, "swap:1") as hf:
        with pytest.raises(ModelError, match=said):
            model.anatomy.replay(ids_of(model))
        with monkeypatch.context() as patch:
            patch.setattr(type(hf), "forward", None)  # whatever is computed before the refusal fails otherwise
            for given in (model, hf):
                with pytest.raises(ModelError, match=said):
                    bathyscope.survey(given, ids_of(model).tolist(), ["residual"], progress=False)
            with pytest.raises(ModelError, match=said):
                bathyscope.load(hf)
        with pytest.raises(ModelError, match=r"Block 2 was called by itself inside scheduled\(\)"):
            hf.model.layers[2](torch.zeros(1, 3, 64))


def test_a_model_is_saved_as_it_runs(tmp_path: Path) -> None:
    model = waves.loaded("llama")
    with scheduled(model, "drop:1") as hf:
        wanted = logits_of(hf, ids_of(model))
        with pytest.warns(UserWarning, match="without a tokenizer"):
            hf.save_pretrained(tmp_path / "dropped")
    found = AutoModelForCausalLM.from_pretrained(tmp_path / "dropped")
    assert found.config.num_hidden_layers == 4
    assert torch.equal(logits_of(found, ids_of(model)), wanted)
    model.hf.save_pretrained(tmp_path / "whole")
    assert torch.equal(logits_of(bathyscope.load(tmp_path / "whole").hf, ids_of(model)), logits_of(hf, ids_of(model)))


def test_what_would_hold_another_order_is_not_saved_under_a_schedule(tmp_path: Path) -> None:
    model = waves.loaded("llama")
    said = r"^Inside scheduled\(\) only the whole model can be saved.*Leave the context first to save it unchanged"
    saved = str(tmp_path / "saved")
    with scheduled(model, "drop:1") as hf:
        for save in (hf.push_to_hub, hf.model.save_pretrained, hf.model.push_to_hub):
            with pytest.raises(ModelError, match=said):
                save(saved)
        with pytest.raises(ModelError, match=said):
            hf.save_pretrained(saved, push_to_hub=True)
    with scheduled(model, "drop:1", arguments="slot") as hf, pytest.raises(ModelError, match=said):
        hf.save_pretrained(saved)
    with (
        pytest.raises(ModelError, match="what block 2 is cannot be said of place 1"),
        scheduled(waves.loaded("diffllama"), "drop:1") as hf,
    ):
        hf.save_pretrained(saved)
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_read_is_refused() -> None:
    model = waves.loaded("llama")
    for given, found in (("llama", "str"), (None, "NoneType"), (nn.Linear(2, 2), "Linear")):
        with pytest.raises(OptionError) as caught, scheduled(given, "drop:1"):  # type: ignore[arg-type]
            pass
        assert str(caught.value).endswith(
            f"takes what bathyscope.load() gives, or a transformers model; {found} given."
        )
    for arguments, schedule, said in (
        (3, "drop:1", "arguments=3 is unknown. Allowed: block, slot."),
        ("block", 5, "A schedule is a Schedule or a text such as 'drop:5'; 5 given."),
        ("block", None, "A schedule is a Schedule or a text such as 'drop:5'; None given."),
        ("blok", "drop:1", "arguments='blok' is unknown. Did you mean 'block'. Allowed: block, slot."),
        ("block", Schedule.standard(4), "made for 4 blocks and this model has 5; make it with Schedule.standard"),
        ("block", "drop:7", "block 7 is out of range; this model has 5 blocks"),
        ("slot", "repeat:1", "no more slots than the model has blocks; given: repeat:1+1, 6 slots"),
    ):
        with pytest.raises(OptionError) as caught, scheduled(model, schedule, arguments):  # type: ignore[arg-type]
            pass
        assert said.replace("'block'.", "'block'?") in str(caught.value)


@pytest.mark.parametrize("name", ["lfm2", "jamba", "nemotron_h"])
def test_by_slot_only_blocks_of_one_kind_change_places(name: str) -> None:
    model = waves.loaded(name)
    with (
        pytest.raises(OptionError, match=r"which mixes tokens in another way .*use arguments='block'"),
        scheduled(model, "swap:0", arguments="slot"),
    ):
        pass
