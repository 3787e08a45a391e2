"""What the measures say of a stream with an attention sink and a massive activation, which trained models have.

Parity of every measure on this model is tested where that of other families is (``gpt2_sink`` of the zoo); this file
sees to it that no measure is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import torch
from support import zoo
from support.fresh import fresh_module
from support.named_tests import compared_by_file
from support.zoo.pathologies import CANCELLER, READERS, SINK_HEADS, SIZE, WRITER

import bathyscope
from bathyscope.measures.registry import MEASURES as REGISTERED
from bathyscope.runs.run import Run

PROMPTS = zoo.prompts(zoo.build("gpt2_sink"), (17, 17, 19, 23))
MEASURES = ("residual", "lens", "skip", "drop", "attention_locality", "effective_depth")


PARITY: Final = {
    "residual": ("test_parity", "test_residual_contributions"),
    "lens": ("test_parity", "test_lens"),
    "skip": ("test_parity", "test_skip"),
    **dict.fromkeys(("drop", "swap", "repeat"), ("test_parity", "test_schedules")),
    "jacobian_lens": ("test_jacobian_lens", "test_the_model_itself_reads_the_transported_states"),
    "depth_score": ("test_depth_score", "test_one_position_before_the_answer"),
    "pairs": ("test_pairs", "test_every_pair_is_that_of_one_forward"),
    "tokens": ("test_tokens", "test_the_lens_of_each_token_equals_a_naive_one"),
    "effective_depth": ("test_effective_depth", "test_depths_by_their_criteria"),
    "stages": ("test_stages", "test_signatures_are_those_of_the_other_measures"),
}
"""Measure → file and test that compare it with what the models themselves say, or with what it is derived from.

Of any other measure these are the tests that its own file names in ``BRUTE_FORCE`` or ``BRUTE_FORCE_OF_PARTS``.
"""


def quick_parameters(test: Any) -> Iterator[Any]:
    """Yield the values with which ``make test-all`` runs a test."""
    for mark in test.pytestmark:
        for value in mark.args[1] if mark.name == "parametrize" else ():
            marks = {own.name for own in getattr(value, "marks", ())}
            yield from () if "thorough" in marks else getattr(value, "values", (value,))


def module_of_tests(file: str) -> Any:
    return fresh_module(Path(__file__).with_name(f"{file}.py"), f"parity_{file}")


def parity_tests() -> dict[str, list[tuple[str, str]]]:
    """Measure → files and tests that compare it with a reference."""
    by_file = compared_by_file()
    of_own_file = {
        measure: [(f"test_{measure}", test) for test in by_file.get(f"test_{measure}", ())] for measure in REGISTERED
    }
    return {**of_own_file, **{measure: [test] for measure, test in PARITY.items()}}


def test_every_measure_is_compared_with_its_reference_on_this_model() -> None:
    tests = parity_tests()
    assert set(tests) == set(REGISTERED)
    unnamed = [measure for measure, names in tests.items() if not names]
    assert unnamed == [], f"name the comparisons of {unnamed} in BRUTE_FORCE of tests/measures/test_<measure>.py"
    modules = {file: module_of_tests(file) for file in {file for names in tests.values() for file, _ in names}}
    lacking = [
        measure
        for measure, names in tests.items()
        if not any("gpt2_sink" in set(quick_parameters(getattr(modules[file], name))) for file, name in names)
    ]
    assert lacking == [], f"compare {lacking} on gpt2_sink too; zoo.swept(zoo.names()) has it"


@pytest.fixture(scope="module")
def run() -> Run:
    return bathyscope.survey(zoo.entry("gpt2_sink").build(), PROMPTS, MEASURES, progress=False)


def test_the_massive_activation_is_found_where_it_was_written(run: Run) -> None:
    residual = run["residual"]
    largest = residual["largest"].values
    inside = np.zeros(largest.shape[1], bool)
    inside[WRITER + 1 : CANCELLER + 1] = True
    assert (largest[:, inside] > 0.95 * SIZE).all()
    assert (largest[:, ~inside] < 20).all()
    assert (residual["largest_token"].values[:, inside] == 0).all()
    assert (residual["largest_channel"].values[:, inside] == 1).all()


def test_norms_without_the_first_position_do_not_see_it(run: Run) -> None:
    residual = run["residual"]
    assert float(residual["norm_resid_rest"].max()) < 20
    assert float(residual["norm_resid"].max()) > SIZE / 25
    assert float(residual["norm_block_rest"].max()) < 20
    assert (residual["norm_block_max"].values[:, [WRITER, CANCELLER]] > 0.9 * SIZE).all()


def test_the_sink_takes_the_attention_of_its_heads(run: Run) -> None:
    """Half of the heads give all of theirs to the first key."""
    first = run["attention_locality"]["first_key"].mean("prompt").values
    assert (first[list(READERS)] > SINK_HEADS / 4).all()
    others = [block for block in range(first.size) if block not in READERS]
    assert first[others].max() < 0.4


def test_the_last_lens_is_the_models_own_prediction(run: Run) -> None:
    last = run["lens"].isel(boundary=-1)
    assert float(abs(last["kl_lens_final"]).max()) == 0
    assert float(last["overlap"].min()) == 1


def test_effects_are_those_of_a_model_built_without_the_block(run: Run) -> None:
    """Also where the dropped block writes, or takes away, what outweighs all else."""
    hf = zoo.entry("gpt2_sink").build()
    ids = torch.tensor([PROMPTS[0]])
    with torch.no_grad():
        normal = hf(ids, use_cache=False).logits.double().log_softmax(-1)
        blocks = list(hf.transformer.h)
        for dropped in range(len(blocks)):
            hf.transformer.h = torch.nn.ModuleList(block for block in blocks if block is not blocks[dropped])
            changed = hf(ids, use_cache=False).logits.double().log_softmax(-1)
            kl = (normal.exp() * (normal - changed)).sum(-1)[0, :-1].mean()
            found = float(run["drop"]["kl"].values[0, dropped])
            assert found == pytest.approx(float(kl), rel=1e-4, abs=1e-6), dropped


def test_the_verdict_is_within_the_depth(run: Run) -> None:
    readings = (run.verdict.readable, run.verdict.own, run.verdict.later)
    assert all(0 <= reading.low <= reading.value <= reading.high <= 5 for reading in readings)
    assert "of 5 blocks" in str(run.verdict)


def test_pruning_and_the_page_take_it(run: Run, tmp_path: Path) -> None:
    model = bathyscope.load(zoo.entry("gpt2_sink").build())
    plan = bathyscope.prune(model, PROMPTS[:2], PROMPTS[2:], drop=1, resamples=100, progress=False)
    losses = run["drop"]["loss"].values[:2] * run["drop"]["n_averaged"].values[:2, None]
    assert plan.left_out == f"drop:{losses.sum(0).argmin()}"
    page = tmp_path / "page.html"
    bathyscope.report([run], page)
    assert "of 5 blocks" in page.read_text()
