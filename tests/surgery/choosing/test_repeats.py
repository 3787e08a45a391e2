"""The scan of repeated windows: on trained models no window helps, and its numbers are those of one forward each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support import naive, waves, zoo

import bathyscope
from bathyscope.errors import ModelError, OptionError, PromptError
from bathyscope.model.reading import tokenized
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.prompts.prompts import Prompts

CHECKPOINTS = Path(__file__).parents[3] / "checkpoints"
_TASK = "task:permutations:{}?factors=1-8&beyond=9-9&elements=generators&answer=image"


def test_costs_are_those_of_one_forward_each() -> None:
    hf = zoo.build("llama")
    blocks, ids = naive.blocks_of(hf), zoo.prompts(hf, (12, 9, 12))
    scan = bathyscope.repeat_scan(waves.loaded("llama"), ids, progress=False)
    assert scan.data.attrs["calls"] == sum(n * n for n in range(1, len(blocks) + 1)) + len(blocks)
    for window, (i, j) in zip(scan.data["window"].values, zip(scan.data["first"].values, scan.data["last"].values)):
        order = [*range(j + 1), *range(i, len(blocks))]
        assert str(scan.data["schedule"].sel(window=window).item()) == f"order:{'-'.join(map(str, order))}"
        gaps = []
        for own in ids:
            changed, _ = naive.run_schedule(hf, blocks, own, order)
            gaps.append(float((naive.loss(changed, own) - naive.loss(naive.logits(hf, own), own)).mean()))
        assert float(scan.data["cost"].sel(window=window)) == pytest.approx(np.mean(gaps), abs=1e-5)
    assert "gain" not in scan.data


@pytest.mark.parametrize(
    ("name", "windows", "problems"),
    [
        pytest.param("permutations_8", 36, 160),
        pytest.param("permutations_8", 36, 800, marks=pytest.mark.thorough),
        pytest.param("permutations_12", 78, 800, marks=pytest.mark.thorough),
    ],
)
def test_no_window_helps_a_trained_model(name: str, windows: int, problems: int) -> None:
    model = bathyscope.load(CHECKPOINTS / name)
    read = tokenized(model, _TASK.format(problems))
    different = len({prompt.ids for prompt in read})
    with pytest.warns(UserWarning, match=f"{problems - different} of {problems} prompts have the tokens of others"):
        scan = bathyscope.repeat_scan(model, read, over="answer", progress=False)
    assert scan.helping == []
    assert scan.text.startswith(f"No window helps: of {windows} windows run twice in a row, {different} prompts")
    assert "none is shown to answer more prompts rightly" in scan.text
    assert scan.data.attrs["full_accuracy"] > 0.5


def test_prompts_without_answers_may_fill_a_batch() -> None:
    """Prompts of one length share a batch, and none of this one has an answer to look at."""
    hf = zoo.build("llama")
    long, short = zoo.prompts(hf, (12, 12), 1), zoo.prompts(hf, (9, 9), 2)
    asked = [bathyscope.Prompt(ids=ids, answer_tokens=2) for ids in long]
    alone = bathyscope.repeat_scan(waves.loaded("llama"), asked, progress=False)
    mixed = [*asked, *(bathyscope.Prompt(ids=ids) for ids in short)]
    scan = bathyscope.repeat_scan(waves.loaded("llama"), mixed, progress=False)
    assert scan.data.attrs["answers"] == 2
    np.testing.assert_array_equal(scan.data["accuracy"], alone.data["accuracy"])


def answered(*lengths: int | None) -> Prompts:
    """Random prompts, whose last tokens are the answer; None = without one."""
    ids = zoo.prompts(zoo.build("llama"), (12,) * len(lengths))
    items = [TokenizedPrompt(str(place), tuple(own), length) for place, (own, length) in enumerate(zip(ids, lengths))]
    return Prompts(tuple(items), "numbers")


def test_one_prompt_is_refused_and_prompts_with_answers_are_counted() -> None:
    model = waves.loaded("llama")
    with pytest.raises(PromptError, match="Only one prompt: an interval needs at least two"):
        bathyscope.repeat_scan(model, answered(None), longest=1, progress=False)
    with pytest.raises(PromptError, match="One of 3 prompts has an answer"):
        bathyscope.repeat_scan(model, answered(None, 2, None), longest=1, progress=False)
    scan = bathyscope.repeat_scan(model, answered(None, 2, 3), longest=1, progress=False)
    assert "run twice in a row, 2 prompts" in scan.text


def test_windows_and_other_orders_are_counted_apart() -> None:
    model, ids = waves.loaded("llama"), zoo.prompts(zoo.build("llama"), (12, 9, 12))
    scan = bathyscope.repeat_scan(model, ids, longest=1, orders=["order:0-1-2-3-4-3-4"], progress=False)
    told = "5 windows run twice in a row and 1 other order, 3 prompts, 95% intervals corrected for all of them"
    assert told in scan.text
    single = type(scan)(scan.data.isel(window=[0])).text
    assert " 1 window run twice in a row, 3 prompts, 95% intervals" in single
    assert "corrected for all" not in single
    # the nearest does make it smaller, which few prompts cannot show
    if not scan.helping:
        assert "none is shown to make the loss smaller. Nearest: " in scan.text


@pytest.mark.parametrize("resamples", [1, 2, 19])
def test_resamples_that_tell_no_spread_are_refused(resamples: int) -> None:
    """One resample gave intervals without width, and seven of ten windows of a random model that help."""
    model, ids = waves.loaded("llama"), zoo.prompts(zoo.build("llama"), (12, 9, 12, 9, 12))
    calls: list[Callable[[], object]] = [
        lambda: bathyscope.repeat_scan(model, ids, resamples=resamples, progress=False),
        lambda: bathyscope.prune(model, ids[:3], ids[3:], drop=1, resamples=resamples, progress=False),
        lambda: bathyscope.repair(model, "drop:1", ids[:3], test=ids[3:], resamples=resamples, progress=False),
        lambda: bathyscope.exit_advice(model, ids, resamples=resamples, progress=False),
        lambda: bathyscope.diff(model, model, ids, resamples=resamples),
    ]
    for call in calls:
        with pytest.raises(OptionError, match=f"^resamples={resamples} is out of range; allowed: 20 to 10000000"):
            call()


def test_orders_that_cannot_run_are_refused() -> None:
    model = waves.loaded("gemma4")
    ids = zoo.prompts(model.hf, (9, 12))
    for text, kind, said in (
        ("order:4", ModelError, "orders: 'order:4' cannot run: in this gemma4.* takes the keys and values of block 1"),
        (",".join(f"drop:{block}" for block in range(5)), OptionError, "drop:4' leaves no block"),
    ):
        with pytest.raises(kind, match=said):
            bathyscope.repeat_scan(model, ids, longest=1, orders=[text], progress=False)


@pytest.mark.parametrize(
    ("orders", "said"),
    [
        (["repeat:1+1"], "'repeat:1\\+1' is the same order as that of the window 1, which is tried already; leave it"),
        (["drop:1", "order:0-2-3-4"], "'order:0-2-3-4' is the same order as 'drop:1', which is tried already; leave"),
    ],
)
def test_an_order_is_tried_once(orders: list[str], said: str) -> None:
    model, ids = waves.loaded("llama"), zoo.prompts(zoo.build("llama"), (9, 12))
    with pytest.raises(OptionError, match=f"^orders: {said}"):
        bathyscope.repeat_scan(model, ids, longest=1, orders=orders, progress=False)


def test_a_choice_that_is_unknown_is_refused() -> None:
    model, ids = waves.loaded("llama"), zoo.prompts(zoo.build("llama"), (12, 9, 12, 9, 12))
    calls: list[Callable[[], object]] = [
        lambda: bathyscope.repeat_scan(model, ids, over="answers", progress=False),  # type: ignore[arg-type]
        lambda: bathyscope.prune(model, ids[:3], ids[3:], drop=1, over="answers", progress=False),  # type: ignore[arg-type]
        lambda: bathyscope.repair(model, "drop:1", ids[:3], test=ids[3:], how="healing", progress=False),  # type: ignore[arg-type]
    ]
    for call, said in zip(calls, ("over='answers'", "over='answers'", "how='healing'")):
        with pytest.raises(OptionError, match=f"{said} is unknown.*Allowed: "):
            call()


@pytest.mark.parametrize("text", ["standard", "order:0-1-2-3-4", "swap:1,swap:1"])
def test_the_models_own_order_is_no_further_one(text: str) -> None:
    model = waves.loaded("llama")
    with pytest.raises(
        OptionError, match=rf"^orders: '{text}' is the model's own order, which all others are compared"
    ):
        bathyscope.repeat_scan(model, zoo.prompts(model.hf, (9, 12)), longest=1, orders=[text], progress=False)


def test_an_empty_order_is_refused() -> None:
    model = waves.loaded("llama")
    with pytest.raises(OptionError, match=r"^Unknown schedule ''"):
        bathyscope.repeat_scan(model, zoo.prompts(model.hf, (9, 12)), longest=1, orders=[""], progress=False)
