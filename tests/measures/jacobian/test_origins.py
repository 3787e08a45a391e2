"""What a lens was fitted to: the model as it was, and each prompt once; anything else is refused or said."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

import bathyscope
from bathyscope.errors import ModelError, OptionError, PromptError, StoreError
from bathyscope.measures.jacobian.fitting import each_once
from bathyscope.measures.jacobian.matrices import FittedLens, text_key
from bathyscope.measures.jacobian.writing import FORMAT
from bathyscope.prompts.prompt import TokenizedPrompt

PROMPTS = [[(7 * i + 11 * j + i * j) % 60 for i in range(12)] for j in range(6)]
FIT, OTHERS, READ = PROMPTS[:3], PROMPTS[3:5], PROMPTS[5:]


def tiny(**changes: Any) -> LlamaForCausalLM:
    torch.manual_seed(5)
    sizes = {"vocab_size": 64, "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "initializer_range": 0.3, "eos_token_id": None}
    return LlamaForCausalLM(LlamaConfig(**{**sizes, **heads, **changes})).eval()


def adapted() -> Any:
    peft = pytest.importorskip("peft")
    torch.manual_seed(6)
    model = peft.get_peft_model(tiny(), peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"]))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, 0.5)
    return model


def fitted(model: Any, prompts: Any = FIT, **options: Any) -> FittedLens:
    return bathyscope.fit_lens(model, prompts, skip_first=2, progress=False, **options)


def read_with(model: Any, lens: Any, prompts: Any = READ) -> bathyscope.Run:
    return bathyscope.survey(model, prompts, ["jacobian_lens"], jacobian_lens={"lens": lens}, progress=False)


THETA = {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}


def test_a_stored_lens_of_another_configuration_is_no_answer(tmp_path: Path) -> None:
    path = tmp_path / "lens.safetensors"
    first = fitted(tiny(), out=path)
    assert fitted(tiny(), out=path).fingerprint == first.fingerprint
    with pytest.raises(StoreError, match=r"the lens of another model: configuration: the lens has \w{8}, this model"):
        fitted(tiny(**THETA), out=path)
    with pytest.raises(
        ModelError, match=r"was fitted to other settings \(of .*\) than this model's \(configuration: the lens has"
    ):
        read_with(tiny(**THETA), first)
    other = fitted(tiny(**THETA), OTHERS)
    # the matrices are not those of the same model, so that their sum is none of either
    assert float((other.matrix(0) - fitted(tiny(), OTHERS).matrix(0)).norm()) > 1e-3
    with pytest.raises(OptionError, match=r"Only lenses of one model can be added; configuration: one lens has"):
        first + other


def test_a_stored_lens_of_other_adapters_is_no_answer(tmp_path: Path) -> None:
    model, path = adapted(), tmp_path / "lens.safetensors"
    on = fitted(model, out=path)
    with model.disable_adapter():
        with pytest.raises(StoreError, match="adapters: the lens has default active, this model default disabled"):
            fitted(model, out=path)
        off = fitted(model, OTHERS)
        with pytest.raises(ModelError, match="adapters: the lens has default active, this model default disabled"):
            read_with(model, on)
    with pytest.raises(OptionError, match="adapters: one lens has default active, the other default disabled"):
        on + off
    assert fitted(model, out=path).fingerprint == on.fingerprint


def told_less(path: Path, *names: str) -> Path:
    """A file of an earlier version, which lacks some of what is told of the origin."""
    with safe_open(path, "pt") as file:
        about = json.loads((file.metadata() or {})[FORMAT])
        tensors = {name: file.get_tensor(name) for name in ("sums", "squares")}
    for name in names:
        del about["origin"][name]
    save_file(tensors, path, {FORMAT: json.dumps(about, sort_keys=True)})
    return path


LATER = ("config_hash", "adapters", "schedule", "precision", "fitted")


def test_a_file_of_an_earlier_version_is_read_and_what_it_does_not_tell_is_said(tmp_path: Path) -> None:
    whole = fitted(tiny())
    old = bathyscope.open_lens(told_less(whole.save(tmp_path / "old.safetensors"), *LATER))
    assert torch.equal(old.matrix(0), whole.matrix(0))
    with pytest.warns(UserWarning, match="does not tell the configuration of its model; fit again to be sure"):
        again = fitted(tiny(), out=tmp_path / "old.safetensors")
    assert again.origin.config_hash is None
    with (
        pytest.warns(UserWarning, match="does not say which configuration it was fitted with"),
        pytest.warns(UserWarning, match="does not say which prompts it was fitted to"),
    ):
        read_with(tiny(), old)
    with pytest.warns(UserWarning, match="does not tell its prompts: those in both count twice"):
        assert (old + fitted(tiny(), OTHERS)).origin.fitted is None
    # a moved model is the same model
    moved = tiny()
    moved.config._name_or_path = "elsewhere"
    assert fitted(moved, out=whole.save(tmp_path / "new.safetensors")).fingerprint == whole.fingerprint


@given(st.lists(st.sampled_from(range(4)), min_size=2, max_size=9), st.booleans())
@settings(deadline=None, max_examples=15)
def test_a_lens_is_that_of_its_different_prompts(numbers: list[int], last: bool) -> None:
    """However often each is given, and whether or not copies end in another token, which a lens never looks at."""
    given_ids = [[*PROMPTS[n][:-1], place % 60 if last else PROMPTS[n][-1]] for place, n in enumerate(numbers)]
    once = list(dict.fromkeys(numbers))
    tokenized = [TokenizedPrompt(str(place), tuple(ids)) for place, ids in enumerate(given_ids)]
    kept = each_once(tokenized)
    assert [text_key(prompt.ids) for prompt in kept] == [text_key(PROMPTS[n]) for n in once]
    assert [int(prompt.id) for prompt in kept] == [numbers.index(n) for n in once]


def test_copies_count_once_and_halves_are_of_different_prompts() -> None:
    with pytest.warns(UserWarning, match="4 of 8 prompts that a lens is fitted to are copies of others"):
        copies = fitted(tiny(), [ids for ids in PROMPTS[:4] for _ in range(2)])
    alone = fitted(tiny(), PROMPTS[:4])
    assert copies.counts == alone.counts == (2, 2)
    assert torch.equal(copies.sums_HBDD, alone.sums_HBDD)
    assert float(copies.data.half_agreement.min()) < 0.999
    with pytest.warns(UserWarning, match="How far halves agree is unknown of a single prompt"):
        assert fitted(tiny(), [FIT[0], FIT[0]]).data.half_agreement.isnull().all()


def test_a_prompt_in_two_lenses_counts_once() -> None:
    first, second = fitted(tiny(), FIT, directions=2), fitted(tiny(), [FIT[0], *OTHERS], directions=2)
    with pytest.raises(OptionError, match="1 of 3 prompts of the second lens are in the first one too"):
        first + second
    with pytest.raises(OptionError, match="3 of 3 prompts of the second lens are in the first one too"):
        first + first
    both = first + fitted(tiny(), OTHERS, directions=2)
    assert both.origin.fitted == tuple(map(text_key, [*FIT, *OTHERS]))
    with pytest.raises(OptionError, match="prompts of the second lens are in the first one too"):
        both + fitted(tiny(), [OTHERS[1], READ[0]], directions=2)


def test_what_a_lens_was_fitted_to_is_not_read_with_it(tmp_path: Path) -> None:
    lens = fitted(tiny(), out=tmp_path / "lens.safetensors")
    for stored in (lens, tmp_path / "lens.safetensors"):
        with pytest.raises(PromptError, match="1 of the 2 prompts of the survey are among those that the lens was"):
            read_with(tiny(), stored, [FIT[1], READ[0]])
    with pytest.raises(PromptError, match="are among those that the lens was fitted to"):
        read_with(tiny(), lens, [[*FIT[1][:-1], 1 + FIT[1][-1]]])
    assert read_with(tiny(), lens)["jacobian_lens"].sizes["prompt"] == 1
    with pytest.raises(PromptError, match="1 of the 3 prompts that the lens would be fitted to are surveyed too"):
        bathyscope.survey(
            tiny(), [FIT[1]], ["jacobian_lens"], jacobian_lens={"prompts": FIT, "skip_first": 2}, progress=False
        )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_prompts": 0}, r"it is of 0 prompts, and a whole number from 1 on is needed"),
        ({"n_prompts": "ten"}, r"its n_prompts is no number"),
        ({"n_prompts": float("inf")}, r"it is of inf prompts"),
        ({"n_prompts": -3}, r"it is of -3 prompts"),
        ({"n_prompts": True}, r"it is of True prompts"),
        ({"J": {-5: torch.eye(4)}}, r"it has a matrix of boundary -4"),
        ({"J": {0: torch.eye(4) * torch.nan}}, r"16 of the 16 values of its matrices are NaN or infinite"),
        ({"J": {0: torch.full((4, 4), torch.inf)}}, r"16 of the 16 values of its matrices are NaN or infinite"),
    ],
)
def test_a_published_file_without_sense_is_one_error(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    torch.save({"J": {0: torch.eye(4)}, "n_prompts": 10, "d_model": 4, **changes}, tmp_path / "lens.pt")
    with pytest.raises(StoreError, match=rf"is no Jacobian lens: .*{message}"):
        bathyscope.open_lens(tmp_path / "lens.pt")


@pytest.mark.parametrize("fault", ["counts", "nan", "boundary", "order", "squares", "shape"])
def test_an_own_file_without_sense_is_one_error(fault: str, tmp_path: Path) -> None:
    lens = fitted(tiny())
    sums, squares, boundaries, counts = lens.sums_HBDD.clone(), lens.squares_B.clone(), [0, 1], [2, 1]
    if fault == "counts":
        counts = [0, 0]
    elif fault == "nan":
        sums[0, 1, 2, 3] = torch.nan
    elif fault == "boundary":
        boundaries = [0, 7]
    elif fault == "order":
        boundaries = [1, 0]
    elif fault == "squares":
        squares = squares[:1]
    else:
        sums = sums[..., :3]
    path = FittedLens(lens.origin, boundaries, sums, counts, squares).save(tmp_path / "lens.safetensors")
    with pytest.raises(StoreError, match=r"is no Jacobian lens: .*\. Fit it again"):
        bathyscope.open_lens(path)


OTHER = (5, -1, 2.5, "x\x1b]0;own\x07", [1], {"a": 1}, True, 10**30, "[" * 9000)


def test_what_a_lens_says_of_itself_is_of_its_kinds(tmp_path: Path) -> None:
    path = fitted(tiny()).save(tmp_path / "lens.safetensors")
    with safe_open(path, "pt") as file:
        written = (file.metadata() or {})[FORMAT]
        tensors = {name: file.get_tensor(name) for name in ("sums", "squares")}
    about = json.loads(written)
    texts = [json.dumps({**about, name: other}) for name in ("counts", "boundaries") for other in (*OTHER, None)]
    texts += [json.dumps({**about, "origin": {**about["origin"], "versions": other}}) for other in (5, "x", [1], None)]
    texts += ["[" * 100_000, "[]", "null", "NaN", f'{written[:-1]}, "counts": [2, 1]}}', '{"origin": ' + "9" * 9000]
    sound = {name: isinstance(value, str) for name, value in about["origin"].items() if name != "versions"}
    texts += [
        json.dumps({**about, "origin": {**about["origin"], name: other}})
        for name, is_text in sound.items()
        for other in OTHER
        if not (is_text and isinstance(other, str))
        and name != "fitted"
        and not (name == "seed" and other in (-1, 10**30))
        if not (about["origin"][name] is None and isinstance(other, str)) and other != 5
    ]
    for text in texts:
        save_file(tensors, path, {FORMAT: text})
        with pytest.raises(StoreError, match=r"is no (whole )?Jacobian lens") as caught:
            bathyscope.open(path)
        assert "\x1b" not in str(caught.value)
        assert len(str(caught.value)) < 400
    for kind in (torch.float8_e4m3fn, torch.int64, torch.bool, torch.complex64, torch.bfloat16):
        for name in tensors:
            save_file({**tensors, name: tensors[name].to(kind)}, path, {FORMAT: written})
            with pytest.raises(StoreError, match="and float32 or float64 is needed"):
                bathyscope.open(path)


def test_a_lens_is_fitted_under_and_after_inference_mode() -> None:
    model, expected = tiny(), fitted(tiny())
    with torch.inference_mode():
        under = fitted(model)
        gradient = bathyscope.survey(model, READ, ["gradient"], progress=False)["gradient"]
    assert torch.equal(under.sums_HBDD, expected.sums_HBDD)
    assert torch.equal(fitted(model).sums_HBDD, expected.sums_HBDD)
    again = bathyscope.survey(model, READ, ["gradient"], progress=False)["gradient"]
    assert again.norm.equals(gradient.norm)
    with torch.inference_mode():
        made_inside = tiny()
    for attempt in (
        lambda: fitted(made_inside),
        lambda: bathyscope.survey(made_inside, READ, ["gradient"], progress=False),
    ):
        with pytest.raises(ModelError, match=r"was made under torch\.inference_mode\(\).* Load the model outside of"):
            attempt()


def test_a_place_that_cannot_be_written_is_refused_before_the_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("computed")

    monkeypatch.setattr("bathyscope.measures.jacobian.fitting.loaded", never)
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.safetensors").mkdir()
    for out in (tmp_path / "file" / "lens.safetensors", tmp_path / "folder.safetensors"):
        with pytest.raises(StoreError, match=r"Cannot write .* Nothing was computed"):
            fitted("no model", out=out)


def test_a_fingerprint_of_an_earlier_version_stays_as_it_was(tmp_path: Path) -> None:
    """A run that was begun with the file is resumed with it."""
    lens = fitted(tiny())
    old = FittedLens(
        replace(lens.origin, **dict.fromkeys(LATER)), lens.boundaries, lens.sums_HBDD, lens.counts, lens.squares_B
    )
    assert old.fingerprint != lens.fingerprint
    stored = bathyscope.open_lens(told_less(lens.save(tmp_path / "lens.safetensors"), *LATER))
    assert stored.fingerprint == old.fingerprint
    names = [name for name in old.origin.record() if name not in LATER]
    assert names == [
        *("model", "weight_hash", "n_blocks", "directions", "skip_first", "seed", "prompts", "prompt_hash", "tokens"),
        "versions",
    ]


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x02.",
        b"\x80\x02h\x05.",
        b"\x80\x02}K\x01s.",
        b"\x80\x02J\x01.",
        {"J": {0: torch.zeros(1).as_strided((4, 4), (0, 0))}, "n_prompts": 3, "d_model": 4},
        {"J": {0: torch.empty(4, 4, device="meta")}, "n_prompts": 3, "d_model": 4},
        {"J": {0: torch.eye(4).to_sparse()}, "n_prompts": 3, "d_model": 4},
        {"J": {0: torch.eye(4)}, "n_prompts": 3, "d_model": torch.tensor([4, 4])},
        {"J": {0: torch.eye(4)}, "n_prompts": 10**400, "d_model": 4},
        {"J": {0: torch.zeros(0, 0)}, "n_prompts": 3, "d_model": 0},
    ],
)
def test_a_published_file_that_nobody_wrote_is_one_error(content: Any, tmp_path: Path) -> None:
    path = tmp_path / "lens.pt"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        torch.save(content, path)
    with pytest.raises(StoreError):
        bathyscope.open(path)
