"""Prompts that judge: each counts once, and copies of one prompt are one prompt."""

from __future__ import annotations

import warnings

import pytest
from support import waves, zoo

import bathyscope
from bathyscope import OptionError, Prompt, PromptError
from bathyscope.model.reading import tokenized
from bathyscope.prompts.samples import judging, require_apart

PROMPTS = zoo.prompts(zoo.build("llama"), (12, 9, 12, 10, 11))


def test_copies_are_left_out_and_counted() -> None:
    given = tokenized(waves.loaded("llama"), [PROMPTS[0], PROMPTS[1], PROMPTS[0], PROMPTS[2], PROMPTS[0]])
    with pytest.warns(UserWarning, match="2 of 5 test prompts have the tokens of others and are left out"):
        found = judging(given)
    assert [list(prompt.ids) for prompt in found] == PROMPTS[:3]
    assert judging(found) is found


def test_five_copies_of_one_prompt_have_no_interval() -> None:
    model = waves.loaded("llama")
    said = r"Only one test prompt \(5 copies of it were given\): an interval needs at least two"
    with pytest.raises(PromptError, match=said):
        bathyscope.prune(model, PROMPTS[1:], PROMPTS[:1] * 5, drop=1, progress=False)
    with pytest.raises(PromptError, match=said):
        bathyscope.repair(model, "drop:1", PROMPTS[1:], test=PROMPTS[:1] * 5, progress=False)
    with pytest.raises(PromptError, match=r"Only one prompt \(5 copies of it were given\)"):
        bathyscope.repeat_scan(model, PROMPTS[:1] * 5, progress=False)


def test_a_copy_changes_no_number_of_a_plan() -> None:
    model = waves.loaded("llama")
    options = {"drop": 1, "random": 1, "progress": False}
    whole = bathyscope.prune(model, PROMPTS[3:], PROMPTS[:3], **options)  # type: ignore[arg-type]
    with pytest.warns(UserWarning, match="1 of 4 test prompts"):
        again = bathyscope.prune(model, PROMPTS[3:], [*PROMPTS[:3], PROMPTS[0]], **options)  # type: ignore[arg-type]
    assert again.table.equals(whole.table)


def of_documents(seed: int, copies: int) -> list[Prompt]:
    """Nine prompts of as many documents; behind each of them others that cost nearly the same."""
    found = []
    for number, ids in enumerate(zoo.prompts(zoo.build("llama"), (12, 9, 10) * 3, seed)):
        found += [Prompt(ids=[*ids, 7 + copy], labels={"document": f"d{number}"}) for copy in range(copies)]
    return found


def test_prompts_of_one_document_are_drawn_together() -> None:
    model, options = waves.loaded("llama"), {"progress": False, "resamples": 400}

    def widths(cluster: str | None, copies: int) -> list[float]:
        test = of_documents(2, copies)
        plan = bathyscope.prune(model, PROMPTS, test, drop=1, random=1, cluster=cluster, **options)  # type: ignore[arg-type]
        rung = bathyscope.repair(model, "drop:1", PROMPTS, test=test, how="scale", cluster=cluster, **options).rungs[1]  # type: ignore[arg-type]
        scan = bathyscope.repeat_scan(model, test, longest=1, cluster=cluster, **options)  # type: ignore[arg-type]
        for text in (plan.text, scan.text):
            assert ("prompts in 9 clusters by document" in text) == (cluster is not None)
        table = plan.table.set_index("candidate").loc["choice"]
        return [
            table["test_cost_high"] - table["test_cost_low"],
            rung.cost_high - rung.cost_low,
            float((scan.data["cost_high"] - scan.data["cost_low"]).mean()),
        ]

    together, apart, once = widths("document", 4), widths(None, 4), widths(None, 1)
    for own, narrow, wide in zip(together, apart, once):
        assert own > 1.4 * narrow
        assert 0.7 * wide < own < 1.3 * wide


def test_clusters_are_checked_before_anything_runs() -> None:
    model, test = waves.loaded("llama"), of_documents(2, 2)
    for call in (
        lambda: bathyscope.prune(model, PROMPTS, test, drop=1, cluster="book"),
        lambda: bathyscope.repair(model, "drop:1", PROMPTS, test=test, cluster="book"),
        lambda: bathyscope.repeat_scan(model, test, cluster="book"),
        lambda: bathyscope.exit_advice(model, test, new_tokens=4, cluster="book"),
    ):
        with pytest.raises(OptionError, match="no label 'book'"):
            call()


@pytest.mark.parametrize(("window", "counted"), [(32, 2), (20, 2), (17, 2), (16, 0)])
def test_long_prompts_that_are_made_of_shorter_calibration_prompts_are_told(window: int, counted: int) -> None:
    """No run of 32 tokens is in windows of 32 that begin with a token of their own, though the text is theirs."""
    model, (text, other, more) = waves.loaded("llama"), zoo.prompts(zoo.build("llama"), (160, 160, 160), 3)
    pieces = [text[start : start + window - 1] for start in range(0, 160 - window, window - 1)]
    calibration = tokenized(model, [[7, *piece] for piece in pieces])
    # the second one begins and ends inside of windows; of the last one a third alone is of the calibration prompts
    test = tokenized(model, [[7, *text[:90]], [9, *text[45:108]], other, [*more[:100], *text[:50]]])
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        require_apart(calibration, test)
    told = [str(warning.message) for warning in heard if "test prompts have half" in str(warning.message)]
    assert [text.partition(" test")[0] for text in told] == ([f"{counted} of 4"] if counted else [])
    assert not told or "all of a shorter prompt, from calibration prompts (first: '0')" in told[0]


def test_short_prompts_of_one_template_are_no_overlap_of_texts() -> None:
    """A test prompt that a shorter one nearly is differs from it as prompts of one set do from each other."""
    model, (template,) = waves.loaded("llama"), zoo.prompts(zoo.build("llama"), (20,), 3)
    ends = [[first, last] for first in range(10, 15) for last in range(20, 24)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        require_apart(
            tokenized(model, [[7, *template], *([7, *template, *end] for end in ends[:10])]),
            tokenized(model, [[7, *template, *end] for end in ends[10:]]),
        )


def test_windows_that_overlap_are_told() -> None:
    model, texts = waves.loaded("llama"), zoo.prompts(zoo.build("llama"), (80, 80, 80), 3)
    calibration = tokenized(model, [own[:60] for own in texts])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        require_apart(calibration, tokenized(model, [own[60:] for own in texts]))
        require_apart(calibration, tokenized(model, [own[30:] + own[:30] for own in texts]))  # too short in a row
    moved = tokenized(model, [texts[0][20:], texts[1][40:], texts[2][:33]])
    with pytest.warns(
        UserWarning, match="2 of 3 test prompts have half of their tokens and more, 32 and more in a row"
    ):
        require_apart(calibration, moved)
