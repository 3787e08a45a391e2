"""Controls: what they change, what they leave, and how they stand beside a run."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr
from support import zoo
from support.loaded_facts import facts_by_shape, facts_of, from_disk
from support.rounding import assert_same_but_rounding
from support.word_tokenizer import word_tokenizer
from transformers import PreTrainedModel

import bathyscope
from bathyscope.errors import ModelError, OptionError, StoreError
from bathyscope.model import Model
from bathyscope.model.reading import tokenized
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.prompts.prompts import Prompts
from bathyscope.runs.writer import RunWriter
from bathyscope.surveying import controls
from bathyscope.surveying.controls import (
    Control,
    controls_of,
    shuffled_blocks,
    shuffled_order,
    shuffled_text,
    untrained,
)

MEASURES = ["lens", "skip"]


@pytest.fixture(scope="module")
def model() -> Model:
    return bathyscope.load(zoo.build("llama"))


@pytest.fixture(scope="module")
def prompts(model: Model) -> list[list[int]]:
    return zoo.prompts(model.hf, (14, 9, 17, 12, 15, 11))


@pytest.fixture(scope="module")
def run(model: Model, prompts: list[list[int]], tmp_path_factory: pytest.TempPathFactory) -> bathyscope.Run:
    out = tmp_path_factory.mktemp("runs") / "controlled"
    return bathyscope.survey(model, prompts, MEASURES, out, control="untrained:2,shuffled_text", progress=False)


def test_controls_are_asked_for_by_name_and_number_of_seeds() -> None:
    assert controls_of(None) == ()
    assert controls_of("untrained") == (Control("untrained", 0),)
    assert [one.label for one in controls_of("untrained:2, shuffled_text")] == [
        "untrained-0",
        "untrained-1",
        "shuffled_text-0",
    ]
    assert controls_of(["shuffled_blocks:1"]) == (Control("shuffled_blocks", 0),)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            "untraind",
            r"'untraind' is no control\. Did you mean 'untrained'\?.*shuffled_blocks, shuffled_text.*untrained:3",
        ),
        ("untrained:0", "give a number of seeds from 1 to 100, such as untrained:3"),
        ("untrained:many", "give a number of seeds from 1 to 100"),
        ("", "is no control"),
    ],
)
def test_mistakes_name_what_is_allowed(given: str, said: str, prompts: list[list[int]]) -> None:
    # nothing is loaded before: the model does not even exist
    with pytest.raises(OptionError, match=said):
        bathyscope.survey("no/such/model", prompts, MEASURES, control=given)


def test_an_untrained_model_has_the_shape_and_other_weights_known_by_its_seed(model: Model) -> None:
    first, again, other = (untrained(model, seed) for seed in (0, 0, 1))
    assert first.weight_hash == again.weight_hash
    assert len({first.weight_hash, other.weight_hash, model.weight_hash}) == 3
    assert (first.n_blocks, first.dtype, first.anatomy.family) == (model.n_blocks, model.dtype, model.anatomy.family)
    assert first.name == f"{model.name}, untrained, seed 0"


def test_they_read_texts_and_a_runs_prompts_with_the_models_own_tokenizer() -> None:
    trained = bathyscope.load(zoo.build("llama"), tokenizer=word_tokenizer([f"w{number}" for number in range(9)]))
    read = tokenized(trained, ["w1 w2 w3", "w4 w5"])
    for control in (untrained(trained, 0), shuffled_blocks(trained, 0)):
        for source in (read, ["w1 w2 w3", "w4 w5"]):
            assert [prompt.ids for prompt in tokenized(control, source)] == [prompt.ids for prompt in read]


def test_making_one_leaves_the_callers_random_numbers_alone(model: Model) -> None:
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    untrained(model, 0)
    assert torch.equal(torch.rand(3), wanted)


QUICK = {torch.bfloat16: frozenset({*zoo.FEWER, "deepseek_v3"}), torch.float32: frozenset({"llama"})}
SWEPT = [
    pytest.param(*one.values, dtype, marks=one.marks, id=f"{one.values[0]}-{dtype}")
    for dtype in (torch.float32, torch.bfloat16, torch.float16)
    for one in zoo.swept(zoo.names(), QUICK.get(dtype, frozenset()))
]


HALF_PRECISIONS = (torch.bfloat16, torch.float16)
FAILING_IN_TRANSFORMERS = frozenset(
    [
        ("deepseek_v4_compressed", torch.float16),
        *((name, dtype) for name in ("xlnet", "xlnet_windowed", "reformer_chunk") for dtype in HALF_PRECISIONS),
    ]
)
"""Families whose own forward mixes this dtype with float32, when they are loaded in it."""


@pytest.mark.parametrize(("name", "dtype"), SWEPT)
def test_controls_differ_from_a_loaded_model_by_their_weights_alone(
    name: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    with zoo.entry(name).within():
        hf = from_disk(zoo.build(name, dtype=dtype), tmp_path, dtype)
        if (name, dtype) in FAILING_IN_TRANSFORMERS:
            require_failing(hf)
            return
        model = bathyscope.load(hf)
        assert facts_of(untrained(model, 0).hf) == facts_of(hf)
        if name not in UNSAYABLE:
            shuffled = shuffled_blocks(model, 0).hf
            assert facts_by_shape(shuffled, model.n_blocks) == facts_by_shape(hf, model.n_blocks)


def require_failing(hf: PreTrainedModel) -> None:
    """Show that transformers alone cannot run a model, so that it is no fault of what measures it."""
    ids_BT = torch.tensor(zoo.prompts(hf, (17, 17)))
    mixed = r"to have the same dtype|expected scalar type|mixed dtype"
    with torch.no_grad(), pytest.raises(RuntimeError, match=mixed):
        hf(ids_BT, use_cache=False)
    with pytest.raises(ModelError, match=r"own forward of 2 tokens fails with RuntimeError: .* try another dtype"):
        bathyscope.load(hf)


UNSAYABLE = frozenset(
    (
        *("diffllama", "gpt_neox_japanese", "gpt2_scaled"),  # constants that follow the place
        *("deepseek_v2", "deepseek_v3", "deepseek_v3_direct", "ernie4_5_moe", "dots1", "glm4_moe", "afmoe", "lfm2_moe"),
        # a block would run before the one whose keys and values, or chosen positions, it takes
        *("gemma4", "gemma4_multimodal", "hy_v4"),
        *("modernbert-decoder", "rwkv"),  # a norm of the first block alone
        # what the first blocks hand on is no other block's to give
        *("gemma3n", "gemma3n_multimodal", "inkling2", "zaya"),
        "beam",  # how sums are scaled follows the place
        # types that transformers does not know, or not without what reads images or writes sound
        *("universal", "moeut", "mixed_norms", "mllama", "musicgen", "musicgen_melody"),
    )
)
"""Families whose configuration cannot say the order of seed 0."""


@pytest.mark.parametrize("name", zoo.swept(zoo.names(), zoo.FEWER))
def test_shuffled_blocks_run_as_the_schedule_of_their_order(name: str) -> None:
    with zoo.entry(name).within():
        require_as_scheduled(name, bathyscope.load(zoo.build(name)))


def require_as_scheduled(name: str, model: Model) -> None:
    order = shuffled_order(model.n_blocks, 0)
    if name in UNSAYABLE:
        with pytest.raises(ModelError, match=r"\. Take the control untrained instead of shuffled_blocks\.$"):
            Control("shuffled_blocks", 0).require(model)
        return
    Control("shuffled_blocks", 0).require(model)
    ids_BT = torch.tensor(zoo.prompts(model.hf, (17, 17)))
    with torch.no_grad(), bathyscope.scheduled(model, f"order:{'-'.join(map(str, order))}") as hf:
        scheduled_logits = hf(ids_BT, use_cache=False).logits
    with torch.no_grad():
        shuffled_logits = shuffled_blocks(model, 0).hf(ids_BT, use_cache=False).logits
    assert_same_but_rounding(shuffled_logits, scheduled_logits, model.hf)


def test_shuffled_blocks_are_the_same_blocks_in_another_order(model: Model) -> None:
    shuffled = shuffled_blocks(model, 0)

    def sums(one: Model) -> list[float]:
        return [float(sum(p.double().abs().sum() for p in block.parameters())) for block in one.anatomy.blocks]

    assert sums(shuffled) == [sums(model)[block] for block in shuffled_order(model.n_blocks, 0)]
    assert shuffled_order(model.n_blocks, 0) != tuple(range(model.n_blocks))
    outside = {name: value for name, value in model.hf.state_dict().items() if ".layers." not in name}
    assert all(torch.equal(shuffled.hf.state_dict()[name], value) for name, value in outside.items())
    assert shuffled.name == f"{model.name}, blocks shuffled, seed 0"


def test_an_order_that_cannot_be_said_is_refused_before_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bathyscope.surveying.computing.Computation.compute", lambda *_: pytest.fail("computed"))
    hf = zoo.build("diffllama")
    with pytest.raises(ModelError, match=r"diffllama cannot be exported with this order .*lambda_init.*untrained ins"):
        bathyscope.survey(hf, zoo.prompts(hf), MEASURES, control="shuffled_blocks", progress=False)


def test_text_that_cannot_be_shuffled_is_no_control(model: Model) -> None:
    def survey(*ids: list[int]) -> bathyscope.Run:
        return bathyscope.survey(model, list(ids), ["lens"], control="shuffled_text", progress=False)

    with pytest.raises(OptionError, match=r"no prompt has two different tokens .* nothing could be shuffled"):
        survey([5, 6], [5, 7, 7, 7])
    with pytest.warns(UserWarning, match="shuffled_text: 1 of 2 prompts have no two different tokens"):
        survey([5, 6], [5, 7, 8, 9])


def test_shuffled_text_keeps_first_token_and_answer() -> None:
    given = Prompts(tuple(TokenizedPrompt(str(n), tuple(range(30)), answer_tokens=4) for n in range(2)), "numbers")
    first, second = shuffled_text(given, 0).items
    assert sorted(first.ids) == list(range(30))
    assert first.ids != tuple(range(30))
    assert (first.ids[0], first.ids[-4:]) == (0, (26, 27, 28, 29))
    assert first.ids != second.ids
    assert shuffled_text(given, 0).items == (first, second)
    assert shuffled_text(given, 1).items != (first, second)
    short = Prompts((TokenizedPrompt("short", (5, 6), answer_tokens=2),), "numbers")
    assert shuffled_text(short, 0).items[0].ids == (5, 6)


def test_controls_are_runs_of_their_own_on_the_same_prompts(run: bathyscope.Run, model: Model) -> None:
    assert list(run.controls) == ["untrained-0", "untrained-1", "shuffled_text-0"]
    for label, beside in run.controls.items():
        assert beside["lens"]["prompt_id"].values.tolist() == run["lens"]["prompt_id"].values.tolist()
        same_prompts = beside.identity.prompt_hash == run.identity.prompt_hash
        assert same_prompts == label.startswith("untrained")
    assert run.controls["shuffled_text-0"].identity.weight_hash == model.weight_hash


def test_a_run_is_found_on_disk_with_its_controls(run: bathyscope.Run) -> None:
    assert run.path is not None
    found = bathyscope.open(run.path)
    assert set(found.controls) == set(run.controls)
    assert found.verdict.text == run.verdict.text
    both = found.beside_controls("lens")
    assert both["control"].values[0] == "none"
    np.testing.assert_array_equal(both["entropy"].isel(control=0), run["lens"]["entropy"])
    np.testing.assert_array_equal(
        both["entropy"].sel(control="untrained-1"), run.controls["untrained-1"]["lens"]["entropy"]
    )


def test_a_finished_run_is_given_controls_without_measuring_it_again(
    run: bathyscope.Run, model: Model, prompts: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bathyscope.surveying.computing.Computation.compute", lambda *_: pytest.fail("measured again"))
    again = bathyscope.survey(model, prompts, MEASURES, run.path, control="untrained:2", progress=False)
    assert set(again.controls) == set(run.controls), "those that lie in its folder, as open gives them"
    plain = bathyscope.survey(model, prompts, MEASURES, run.path, progress=False)
    assert list(plain.controls) == list(bathyscope.open(str(run.path)).controls)
    assert plain.verdict.text == run.verdict.text


def test_an_unfinished_control_is_left_out_and_said(
    model: Model, prompts: list[list[int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, finish = tmp_path / "run", RunWriter.finish

    def interrupted(self: RunWriter, derived: Mapping[str, xr.Dataset]) -> bathyscope.Run:
        if self._folder is not None and "controls" in self._folder.path.parts:
            raise KeyboardInterrupt
        return finish(self, derived)

    monkeypatch.setattr(RunWriter, "finish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bathyscope.survey(model, prompts, ["lens"], out, control="shuffled_text", progress=False)
    for again in (bathyscope.open, lambda path: bathyscope.survey(model, prompts, ["lens"], path, progress=False)):
        with pytest.warns(
            UserWarning, match="control shuffled_text-0 of the run in .* is not finished, and is left out"
        ):
            assert again(out).controls == {}
    assert list(bathyscope.open(out, partial=True).controls) == ["shuffled_text-0"]


def test_a_run_without_controls_has_none_to_stand_beside(model: Model, prompts: list[list[int]]) -> None:
    plain = bathyscope.survey(model, prompts, ["lens"], progress=False)
    with pytest.raises(OptionError, match=r"has no controls; survey with control='untrained:3'"):
        plain.beside_controls("lens")


def test_nothing_depends_on_training_in_an_untrained_model() -> None:
    # untrained blocks of the library's own scale, on prompts enough for intervals within a block
    one = untrained(bathyscope.load(zoo.build("llama")), 11)
    found = bathyscope.survey(one, zoo.prompts(one.hf, (24,) * 24), MEASURES, control="untrained:4", progress=False)
    assert found.verdict.text.endswith(
        "In 4 untrained models of this shape the prediction (the depth from which half of the tokens keep their "
        "prediction) and the effect (the depth by which 90 % of the effect is done) are the same within a block."
    )
    assert "uses" not in found.verdict.text


def test_a_second_copy_that_does_not_fit_is_refused_before_compute(
    model: Model, prompts: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controls, "free_bytes", lambda device: 1000)
    monkeypatch.setattr("bathyscope.surveying.computing.Computation.compute", lambda *_: pytest.fail("computed"))
    with pytest.raises(ModelError, match=r"needs a second copy of the weights of .* GB\), and 0\.0 GB are free on cpu"):
        bathyscope.survey(model, prompts, MEASURES, control="untrained", progress=False)


def test_one_block_has_no_order(monkeypatch: pytest.MonkeyPatch) -> None:
    model = bathyscope.load(zoo.build("llama"))
    monkeypatch.setattr(Model, "n_blocks", property(lambda self: 1))
    with pytest.raises(ModelError, match="has one block, whose order cannot be shuffled; take the control untrained"):
        Control("shuffled_blocks", 0).require(model)


def test_a_part_of_a_run_has_its_controls_on_the_same_prompts(run: bathyscope.Run) -> None:
    few = run.select(prompts="1-2")
    depths = {name: own["lens"]["prediction_depth"].values for name, own in {"": run, **run.controls}.items()}
    assert few.verdict.readable.value == pytest.approx(depths[""][1:3].mean(), rel=1e-12)
    null = few.verdict.readable.nulls["untrained"]
    assert null.by_control.shape == (2, 2)
    np.testing.assert_array_equal(null.by_control[0], depths["untrained-0"][1:3])
    assert few.beside_controls("lens").sizes["prompt"] == 2


def test_a_part_with_some_of_the_blocks_has_no_verdict(run: bathyscope.Run) -> None:
    some = run.select(blocks="0-1")
    assert run.judged
    assert not some.judged
    assert some.headline() == ""
    with pytest.raises(OptionError, match=r"A verdict is of all blocks, and this part of a run has some of them"):
        assert some.verdict
    with pytest.raises(OptionError, match=r"A verdict needs prediction_depth of the lens"):
        assert run.select(variables="entropy").verdict
    with pytest.raises(OptionError, match=r"There is no block or boundary 77; there are 0 to \d+\."):
        run.select(blocks="0,77")


def test_a_part_of_a_run_is_not_saved_as_if_it_were_whole(run: bathyscope.Run, tmp_path: Path) -> None:
    few = run.select(prompts="1-2").select(blocks="0-1")
    assert (run.cut, few.cut, few.controls["untrained-0"].cut) == ((), ("prompts", "blocks"), ("prompts", "blocks"))
    with pytest.raises(
        StoreError, match=r"a part of a run \(selected by prompts, blocks\), and only whole runs are saved"
    ):
        few.save(tmp_path / "part")
    assert not (tmp_path / "part").exists()


@pytest.mark.parametrize(
    ("control", "message"),
    [
        (3, "control=3 is no control. Allowed: untrained, shuffled_blocks, shuffled_text, or a list of them."),
        (
            "untrained:2,untrained:3",
            "control='untrained:2,untrained:3' names untrained twice. "
            "Name it once, with its number of seeds: untrained:3.",
        ),
        (
            ["untrained", "untrained"],
            "control=['untrained', 'untrained'] names untrained twice. "
            "Name it once, with its number of seeds: untrained:2.",
        ),
        (
            f"untrained:{'9' * 5000}",
            f"control='untrained:{'9' * 28}…: give a number of seeds from 1 to 100, such as untrained:3.",
        ),
    ],
)
def test_controls_of_other_kinds_or_named_twice_are_refused(control: object, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        controls_of(control)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_a_control_is_never_the_model_itself() -> None:
    hf = untrained(bathyscope.load(zoo.entry("llama").build()), 3).hf
    itself = bathyscope.load(hf)
    with pytest.warns(UserWarning, match=r"is itself untrained, with seed 3, .* drawn with seed 1000003 instead\.$"):
        control = untrained(itself, 3)
    assert control.weight_hash != itself.weight_hash
    assert control.name.endswith("untrained, seed 1000003")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert untrained(itself, 0).name.endswith("untrained, seed 0")


def test_a_lens_of_an_untrained_model_is_no_lens_of_its_control() -> None:
    itself = untrained(bathyscope.load(zoo.entry("llama").build()), 0)
    lens = bathyscope.fit_lens(itself.hf, [[5, 6, 7, 8, 9, 10], [9, 8, 7, 6]], skip_first=1, progress=False)
    options = {"jacobian_lens": {"lens": lens}, "control": "untrained", "progress": False}
    with pytest.warns(UserWarning, match="is itself untrained"), pytest.raises(ModelError, match="fitted to other wei"):
        bathyscope.survey(itself.hf, [[7, 5, 9, 11]], ["jacobian_lens"], **options)


def test_an_untrained_model_is_made_of_a_loaded_one_and_a_seed(model: Model) -> None:
    with pytest.raises(OptionError, match=r"takes a model that was loaded; 'folder' given. Give bathyscope.load"):
        untrained("folder", seed=1)  # type: ignore[arg-type]
    for seed, message in ((-1, "seed=-1 is out of range; allowed: 0 to 4294967295"), ("1", "seed takes a whole numb")):
        with pytest.raises(OptionError, match=message):
            untrained(model, seed)  # type: ignore[arg-type]
