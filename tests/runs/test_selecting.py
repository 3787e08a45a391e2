"""Parts of a run: results of all prompts stay out, nothing is selected by accident, and readers know what is cut."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from support import waves, zoo
from support.word_tokenizer import word_tokenizer

import bathyscope
from bathyscope import OptionError
from bathyscope.labels import token_weights
from bathyscope.pages.figures.registry import FIGURES, drawings
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.prompts.prompts import Prompts
from bathyscope.runs.selecting import of_variables, prompts_named

IDS = zoo.prompts(zoo.build("llama"), (14, 9, 14, 11, 10))
MEASURES = ["residual", "lens", "skip", "drop", "pairs", "cka"]
ALL = "pairs.interaction_mean and 2 more, cka, noise"


@pytest.fixture(scope="module")
def run() -> bathyscope.Run:
    prompts = [bathyscope.Prompt(ids=ids, labels={"level": n % 2, "half": n // 3}) for n, ids in enumerate(IDS)]
    positions = [[2] for _ in IDS]
    return bathyscope.survey(
        waves.loaded("llama"), prompts, MEASURES, progress=False, skip={"positions": positions}, pairs={"resamples": 50}
    )


@pytest.mark.filterwarnings("ignore:Of all prompts together")
def test_several_are_those_that_any_names_and_parts_of_parts_those_that_all_name(run: bathyscope.Run) -> None:
    either = run.select(prompts="level=1,half=1")
    both = run.select(prompts="level=1").select(prompts="half=1")
    names = [prompt.id for prompt in run.prompts]
    assert [prompt.id for prompt in either.prompts] == [names[n] for n in (1, 3, 4)]
    assert [prompt.id for prompt in both.prompts] == [names[3]]
    assert both["drop"].loss.values.tolist() == run["drop"].loss.values[[3]].tolist()


def test_what_is_of_all_prompts_is_left_out_and_named(run: bathyscope.Run) -> None:
    assert "cka" in run
    with pytest.warns(UserWarning, match=f"so not of some of them: {ALL}"):
        some = run.select(prompts="level=1")
    assert "cka" not in some
    assert len(some.prompts) == some["pairs"].sizes["prompt"] == some["drop"].sizes["prompt"] == 2
    assert "interaction_mean" not in some["pairs"]
    assert {"interaction", "cost"} <= {panel.name for panel in drawings(some)["pairs"].panels}
    assert "the interval over" not in drawings(some)["pairs"].note
    assert "the interval over 5 prompts" in drawings(run)["pairs"].note


@pytest.mark.parametrize("asked", [{"prompts": ""}, {"prompts": []}, {"blocks": " , "}, {"variables": ""}])
def test_nothing_is_not_selected(run: bathyscope.Run, asked: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=r"selects nothing; name what is wanted, or leave it out for everything\."):
        run.select(**asked)


def test_one_number_is_a_prompt_or_a_block(run: bathyscope.Run) -> None:
    with pytest.warns(UserWarning, match="Of all prompts together"):
        some = run.select(prompts=3, blocks=1)
    assert [len(some.prompts), some["drop"].sizes["dropped"]] == [1, 1]
    np.testing.assert_array_equal(some["drop"].loss, run["drop"].loss[[3]].sel(dropped=[1]))
    with pytest.raises(OptionError, match=r"^No prompt of this run is '1\.5'"):
        run.select(prompts=1.5)  # type: ignore[arg-type]


def test_a_range_far_beyond_is_refused_at_its_first_number(run: bathyscope.Run) -> None:
    last = run["lens"].sizes["boundary"] - 1
    with pytest.raises(OptionError, match=f"^There is no block or boundary {last + 1}; there are 0 to {last}"):
        run.select(blocks="0-9999999999")
    with pytest.raises(OptionError, match=r"^No prompt of this run is '0-9999999999'"):
        run.select(prompts="0-9999999999")


def test_texts_of_tokens_stay_with_some_of_the_prompts() -> None:
    """They name ids of whichever prompts, and a page without them showed numbers in the place of words."""
    words = word_tokenizer(["she", "sells", "the", "eggs", "at"])
    model = bathyscope.load(waves.loaded("llama").hf, tokenizer=words)
    texts = ["she sells the eggs", "sells she at the eggs"]
    whole = bathyscope.survey(model, texts, ["lens", "tokens"], progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing of all prompts together is left out
        some = whole.select(prompts=1)
    assert some["tokens"].sizes["prompt"] == 1
    xr.testing.assert_identical(some["tokens"].piece, whole["tokens"].piece)


@pytest.mark.filterwarnings("ignore:Of all prompts together")
def test_depths_are_not_read_off_some_of_the_blocks(run: bathyscope.Run) -> None:
    """Blocks 1 to L: all curves have one length, and every index would be one too small."""
    some, L = run.select(blocks="1-5"), run.n_blocks
    assert some["residual"].sizes["block"] == L - 1 == some["lens"].sizes["boundary"] - 1
    with pytest.raises(OptionError, match="is cut to some of its blocks, and a depth is of all of them"):
        bathyscope.compare([some, run.select(prompts="0-3")], resamples=20)
    with pytest.raises(OptionError, match="This run is cut to some of its blocks"):
        bathyscope.group(some, "level", resamples=20, permutations=20)


def test_results_of_two_blocks_are_cut_along_both(run: bathyscope.Run) -> None:
    some = run.select(blocks="1,3")
    assert (some["pairs"].dropped.values.tolist(), some["pairs"].other.values.tolist()) == ([1, 3], [1, 3])
    assert (some["cka"].boundary.values.tolist(), some["cka"].boundary_other.values.tolist()) == ([1, 3], [1, 3])
    assert some["pairs"]["cost"].sel(dropped=3, other=1).equals(run["pairs"]["cost"].sel(dropped=3, other=1))


def test_parts_on_the_same_prompts_say_what_is_left_out(run: bathyscope.Run) -> None:
    """Of two models: parts of one run differ in their prompts alone, and are refused."""
    prompts = [bathyscope.Prompt(ids=ids, labels={"level": n % 2}) for n, ids in enumerate(IDS)]
    other = bathyscope.survey(zoo.build("llama_tied"), prompts, MEASURES[:3], progress=False)
    with pytest.warns(UserWarning, match="Of all prompts together"):
        first = run.select(prompts="0-3")
    found = bathyscope.compare([first, other.select(prompts="2-4")], resamples=20)
    assert any(note.endswith("share 2 prompts; 2 and 1 of their own are left out") for note in found.notes)


def test_readings_need_no_other_variable(run: bathyscope.Run) -> None:
    some = run.select(variables="prediction_depth,output_all,output_future")
    assert some.verdict.readable.value == run.verdict.readable.value
    assert some.verdict.n_blocks == 5


def test_some_variables_keep_the_tokens_that_their_means_are_over() -> None:
    prompts = [bathyscope.Prompt(ids=ids, answer_tokens=count) for ids, count in zip(IDS, (1, 8, 2, 3, 1))]
    options = {"positions": "answer"}
    whole = bathyscope.survey(waves.loaded("llama"), prompts, ["lens", "drop"], progress=False, lens=options)
    for measure, name in (("lens", "kl_lens_final"), ("lens", "cross_entropy"), ("drop", "kl")):
        some = whole.select(variables=name)[measure]
        assert token_weights(some, name).tolist() == token_weights(whole[measure], name).tolist()
    cut = whole.select(variables="entropy")
    assert token_weights(cut["lens"], "entropy").tolist() == [1, 8, 2, 3, 1]
    drawn = [panel.alt for one in (cut, whole) for panel in drawings(one)["lens"].panels if panel.name == "entropy"]
    assert drawn[0] == drawn[1]
    before = whole["drop"].drop_vars("n_averaged")
    old = of_variables({"drop": before}, "kl")["drop"]
    assert token_weights(old, "kl").tolist() == token_weights(before, "kl").tolist() == [len(ids) - 1 for ids in IDS]


def test_a_figure_that_lacks_a_variable_is_left_out_by_name(run: bathyscope.Run, tmp_path: Path) -> None:
    assert "ratio_block" in run["residual"]
    assert set(drawings(run.select(variables="cos_block"))) == {"residual"}
    assert [panel.name for panel in drawings(run.select(variables="cost"))["pairs"].panels] == ["cost"]
    wanted = r"A figure is left out\. Figure 'drop' needs a variable that was not selected \(.*baseline_loss"
    with pytest.warns(UserWarning, match=wanted):
        assert set(drawings(run.select(variables="loss,cos_block"))) == {"residual"}
    with pytest.raises(OptionError, match=wanted.partition(r"\. ")[2]):
        FIGURES["drop"].drawing(run.select(variables="loss"))
    with pytest.warns(UserWarning, match=wanted):
        assert bathyscope.report([run], tmp_path / "page.html", variables="loss,cos_block").is_file()


@settings(deadline=None, max_examples=60)
@given(ids=st.lists(st.integers(0, 9), unique=True, min_size=1, max_size=6), data=st.data())
def test_a_number_means_the_same_alone_and_in_a_range(ids: list[int], data: st.DataObject) -> None:
    prompts = Prompts(tuple(TokenizedPrompt(id=str(name), ids=(5, 6)) for name in ids), "given")
    first = data.draw(st.integers(0, 9))
    last = data.draw(st.integers(first, 9))
    alone = ",".join(map(str, range(first, last + 1)))
    if not set(range(first, last + 1)) <= set(ids):
        if any(number != place and first <= number <= last for place, number in enumerate(ids)):
            with pytest.raises(OptionError, match="may mean ids or places"):
                prompts_named(prompts, f"{first}-{last}")
        return
    assert prompts_named(prompts, f"{first}-{last}") == prompts_named(prompts, alone)
    assert prompts_named(prompts, alone) == sorted(ids.index(number) for number in range(first, last + 1))
