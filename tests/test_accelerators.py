"""On an accelerator: the CPU's results to the bit, no tensor in the wrong place, and no waiting while blocks pass."""

from __future__ import annotations

import copy
import itertools
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import zoo
from support.fake_accelerator import Accelerator, Counts, MixedDevicesError, NoKernelError, little_memory, little_room
from torch import Tensor

from bathyscope import ModelError, Prompt, survey
from bathyscope.measures import residual
from bathyscope.model import Model, load
from bathyscope.model.anatomy.readout import Readout
from bathyscope.model.memory import bytes_per_token
from bathyscope.model.proving import anatomy_of
from bathyscope.runs.run import Run
from bathyscope.surveying.asking import Survey
from bathyscope.wavefront import calls, places, reader, replace
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.engine import Wavefront
from bathyscope.wavefront.gradients.chain import AnswerChain
from bathyscope.wavefront.observer import Probe
from bathyscope.wavefront.probe import BaselineView

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
THOROUGH = (
    *(
        "gpt2",
        "gemma4",
        "bloom",
        "falcon",
        "gpt_neox",
        "mixtral",
        "qwen3_moe",
        "deepseek_v3",
        "ministral",
        "gemma2",
        "olmo2",
    ),
    *("granite", "jamba", "lfm2", "opt_projected", "mpt"),
)
FIVE = ("residual", "lens", "skip", "drop", "swap")
OPTIONS: dict[str, Any] = {"repeat": {"length": 2}, "erasure": {"future": True}, "seed": 3, "progress": False}
KINDS: dict[str, Any] = {
    "progress": False,
    "skip": {"parts": ["block", "attention", "mlp"], "protect_first": 2, "positions": [[5], [3], []]},
    "drop": {"protect_first": 1},
    "swap": {"protect_first": 1},
    "direct": {"protect_first": 0},
    "lens": {"norm": ["recompute", "frozen"]},
}


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Accelerator:
    """An accelerator; calls and chunks have its sizes on the CPU too, so that both round alike."""
    for module in (calls, reader, replace):
        monkeypatch.setattr(module, "is_accelerator", lambda device: True)
    return Accelerator()


@pytest.fixture(scope="module")
def waved() -> tuple[Accelerator, Model]:
    device, hf = Accelerator(), zoo.entry("llama").build()
    with device:
        return device, load(device.moved(hf))


def prompts(model: Any, lengths: tuple[int, ...] = (8, 6, 6)) -> list[Prompt]:
    return [Prompt(ids=ids, answer_tokens=2) for ids in zoo.prompts(model, lengths)]


def both(device: Accelerator, hf: Any, measures: Any, options: dict[str, Any]) -> tuple[Run, Run, Counts]:
    """A survey on the CPU, the same on the accelerator, and what that asked of it."""
    there, asked = copy.deepcopy(hf), prompts(hf)
    plain = survey(load(hf), asked, measures, **options)
    with device:
        model = load(device.moved(there))
        with device.counted() as counts:
            return plain, survey(model, asked, measures, **options), counts


def assert_same(one: Run, other: Run) -> None:
    """All values to the bit, but for answers of a few tokens, which a CPU alone reads row by row."""
    assert one.measures == other.measures
    for measure in one.measures:
        for name, values in one[measure].variables.items():
            compared, text = (other[measure][name].values, values.values), f"{measure}.{name}"
            if measure in ("depth_score", "noise") and values.dtype.kind == "f":
                np.testing.assert_allclose(*compared, rtol=1e-5, atol=2e-6, err_msg=text)
            else:
                np.testing.assert_array_equal(*compared, err_msg=text)


@pytest.mark.parametrize("name", ["llama", *(pytest.param(name, marks=pytest.mark.thorough) for name in THOROUGH)])
def test_every_measure_is_the_cpus_and_no_block_waits(name: str, device: Accelerator) -> None:
    plain, there, counts = both(device, zoo.entry(name).build(), "all", OPTIONS)
    assert_same(plain, there)
    assert max(counts.in_block.values(), default=0) <= 2, counts.lines_in_block
    assert not counts.out_of_block
    assert not counts.unsteady


@pytest.mark.parametrize("name", ["llama", *(pytest.param(n, marks=pytest.mark.thorough) for n in THOROUGH[:7])])
def test_every_kind_of_row_is_the_cpus(name: str, device: Accelerator) -> None:
    """Parts of blocks, protected tokens, prompts without positions, and starts in the middle of the channels."""
    hf = zoo.entry(name).build()
    plain, there, counts = both(device, hf, ["skip", "drop", "swap", "direct", "lens"], KINDS)
    assert_same(plain, there)
    assert max(counts.in_block.values(), default=0) <= 2, counts.lines_in_block
    assert not counts.out_of_block
    if name == "llama":
        assert_same(*both(device, hf, ["skip"], {"skip": {"axis": "channels"}, "progress": False})[:2])


def test_a_survey_launches_little_more_than_the_model(waved: tuple[Accelerator, Model]) -> None:
    """Of five measures, once what is known of a model has been sent to it: the more blocks, the smaller the share."""
    device, model = waved
    asked = prompts(model.hf, (20,))
    # places that an earlier test has sent would not be copied again
    places._cached_index.cache_clear()
    with device:
        with device.counted() as first_counts:
            survey(model, asked, list(FIVE), progress=False)
        with device.counted() as counts:
            survey(model, asked, list(FIVE), progress=False)
    models = counts.launches.total() - counts.own_launches
    marks = sum(number for line, number in counts.launches.items() if line.startswith("model/marks.py"))
    # of the weights, once a survey, however many waves it has
    assert 0 < marks <= 4 * len(model.hf.state_dict()), counts.launches
    assert counts.own_launches - marks < 1.9 * models, counts.launches
    assert counts.into_block.total() <= 3, counts.into_block
    assert counts.in_block.total() == 0, counts.lines_in_block
    # the same survey took 40 waits and 12 copies when products of readouts were small (commit b44e432)
    assert counts.waits.total() <= 40, counts.waits
    assert first_counts.copies_in.total() <= 12, first_counts.copies_in
    # whether the control is the plain forward is asked once for all measures
    assert sum(number for line, number in counts.waits.items() if line.startswith("wavefront/compare.py")) == 1


PARTS_OF_IT = ["residual", "lens", "skip", "swap_cosine", "attention_locality", "neurons"]
ALL_BUT_GRADIENTS = [*PARTS_OF_IT, "drop", "swap", "repeat", "direct", "erasure", "depth_score", "pairs"]


@pytest.mark.parametrize(
    ("name", "measures"),
    [
        ("llama", PARTS_OF_IT),
        *(
            pytest.param(name, ALL_BUT_GRADIENTS, id=name, marks=pytest.mark.thorough)
            for name in ("llama", "mixtral", "gpt_neox", "olmo2", "granite", "falcon")
        ),
    ],
)
def test_a_model_on_two_devices_is_the_one_on_the_cpu(name: str, measures: list[str], device: Accelerator) -> None:
    """The first blocks on one, the others, final norm and unembedding on another: the stream is on the first."""
    hf = zoo.entry(name).build()
    there, asked = copy.deepcopy(hf), prompts(hf)
    options = {"skip": {"parts": ["block", "mlp"]}, "lens": {"norm": ["recompute", "frozen"]}}
    plain = survey(load(hf), asked, measures, progress=False, **options)
    behind = [module for module in (anatomy_of(hf).readout.norm, hf.get_output_embeddings()) if module is not None]
    last = {path for path, module in hf.named_modules() if module in behind}
    with device:
        model = load(device.spread(there, lambda path: int(path in last or block_of(path) >= 2)))
        assert {str(p.device) for p in there.parameters()} == {"fakegpu:0", "fakegpu:1"}
        assert str(model.device) == "fakegpu:0"
        assert_same(plain, survey(model, asked, measures, progress=False, **options))


def block_of(path: str) -> int:
    """The number of the block that a module belongs to; −1 = it is in none."""
    return next((int(part) for part in path.split(".") if part.isdigit()), -1)


MISTAKES: dict[str, Callable[[Tensor], object]] = {
    "an index made on the host": lambda h: h[:, torch.tensor([0, 2])],
    "a list as an index": lambda h: h[:, [0, 2]],
    "an index made for every block": lambda h: torch.tensor([0, 2], device=h.device),
    "a number of one element": lambda h: h[0, 0, 0].item(),
    "a question": lambda h: bool((h > 0).any()),
    "a mask of unknown size": lambda h: h[h > 0],
    "where it is not zero": lambda h: h.nonzero(),
    "whether two are equal": lambda h: torch.equal(h, h),
    "a copy to the host": lambda h: h.cpu(),
    "a list": lambda h: h.tolist(),
    "a buffer on the host": lambda h: torch.empty(h.shape).copy_(h),
    "a row put into a buffer on the host": lambda h: torch.zeros(3, *h.shape).__setitem__(0, h),
}
REFUSED: dict[str, Callable[[Tensor], object]] = {
    "values from the host": lambda h: torch.where(h > 0, h, torch.zeros(h.shape[-1])),
    "a sum with the host": lambda h: h + torch.ones(h.shape[-1]),
    "a product with the host": lambda h: h @ torch.ones(h.shape[-1], 2),
    "an array": lambda h: np.asarray(h),
    "a product of whole numbers": lambda h: (h > 0).long().flatten(0, 1) @ (h > 0).long().flatten(0, 1).T,
    "numbers of the host's generator": lambda h: torch.rand(h.shape, device=h.device, generator=torch.Generator()),
    "more of them": lambda h: torch.empty_like(h).uniform_(generator=torch.Generator()),
}
UNSTEADY: dict[str, Callable[[Tensor], object]] = {
    "a sum by index": lambda h: torch.zeros_like(h).index_add_(1, h[0, :, 0].long().clamp(0, 0), h),
    "a sum by place": lambda h: torch.zeros_like(h).scatter_add_(1, torch.zeros_like(h).long(), h),
    "a running sum": lambda h: h.flatten().cumsum(0),
}


class Mistaken(Probe):
    def __init__(self, mistake: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.mistake = mistake

    def baseline(self, view: BaselineView) -> None:
        self.mistake(view.before_BTD)


def shown(waved: tuple[Accelerator, Model], mistake: Callable[[Tensor], object]) -> Counts:
    device, model = waved
    with device, device.counted() as counts:
        batch = Batch.of(zoo.prompts(model.hf, (6, 6)), model.device)
        Wavefront(model.anatomy, tails=True).run(batch, [Mistaken(mistake)])
    return counts


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=list(MISTAKES))
def test_mistakes_are_caught(mistake: Callable[[Tensor], object], waved: tuple[Accelerator, Model]) -> None:
    counts = shown(waved, mistake)
    assert counts.in_block.total() + counts.out_of_block.total() + counts.into_block.total() >= waved[1].n_blocks


@pytest.mark.parametrize("mistake", REFUSED.values(), ids=list(REFUSED))
def test_mistakes_that_cannot_be_computed_are_refused(
    mistake: Callable[[Tensor], object], waved: tuple[Accelerator, Model]
) -> None:
    with pytest.raises((MixedDevicesError, NoKernelError, TypeError), match="device"):
        shown(waved, mistake)


@pytest.mark.parametrize("mistake", UNSTEADY.values(), ids=list(UNSTEADY))
def test_sums_in_any_order_are_caught(mistake: Callable[[Tensor], object], waved: tuple[Accelerator, Model]) -> None:
    assert shown(waved, mistake).unsteady.total() >= waved[1].n_blocks


def test_an_equation_that_is_solved_is_waited_for(waved: tuple[Accelerator, Model]) -> None:
    counts = shown(waved, lambda h: torch.linalg.solve(h[0] @ h[0].T + torch.eye(h.shape[1], device=h.device), h[0]))
    assert counts.in_block.total() >= waved[1].n_blocks


@pytest.mark.parametrize("right", [lambda h: h * 2.0, lambda h: h[:, 1:3], lambda h: h + torch.tensor(1.0)])
def test_what_is_right_passes(right: Callable[[Tensor], object], waved: tuple[Accelerator, Model]) -> None:
    counts = shown(waved, right)
    assert counts.in_block.total() + counts.out_of_block.total() + counts.into_block.total() == 0


ROWS = ["residual", "skip", "drop", "swap", "repeat", "swap_cosine", "direct", "erasure", "pairs"]


def told(caught: list[warnings.WarningMessage]) -> list[str]:
    return [str(one.message) for one in caught if "out of memory" in str(one.message)]


@pytest.mark.parametrize(("name", "few"), [("llama", 40), ("gpt2", 60)])
def test_calls_that_are_out_of_memory_are_made_in_pieces(name: str, few: int) -> None:
    model = load(zoo.entry(name).build())
    asked = prompts(model.hf, (15, 13, 13))
    plain = survey(model, asked, ROWS, progress=False)
    with little_memory(few) as refused, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = survey(model, asked, ROWS, progress=False)
    assert refused
    said = told(caught)
    assert len(said) == 1
    assert re.search(r"on \d+ tokens ran out of memory; .* call_tokens=\d+ \(--call-tokens\)", said[0])
    assert_close(plain, found)


def assert_close(plain: Run, found: Run) -> None:
    assert found.measures == plain.measures
    for measure in plain.measures:
        for variable, values in plain[measure].data_vars.items():
            if values.dtype.kind == "f":
                got = found[measure][variable].values
                np.testing.assert_allclose(got, values.values, rtol=2e-5, atol=2e-6, err_msg=f"{measure}.{variable}")


def test_readouts_that_are_out_of_memory_are_made_in_pieces() -> None:
    model = load(zoo.entry("llama").build())
    asked = prompts(model.hf, (15, 13))
    measures = ["lens", "drop", "erasure", "depth_score"]
    plain = survey(model, asked, measures, progress=False)
    with little_room(Readout, "product", 5) as refused, pytest.warns(UserWarning, match="Comparing predictions ran"):
        found = survey(model, asked, measures, progress=False)
    assert len(refused) > 2
    assert_close(plain, found)


def test_backward_passes_that_are_out_of_memory_are_made_in_pieces() -> None:
    model = load(zoo.entry("llama").build())
    asked = prompts(model.hf, (9,))
    plain = survey(model, asked, ["integrated_gradients"], progress=False)
    with (
        little_room(AnswerChain, "predict", 6) as refused,
        pytest.warns(UserWarning, match="A backward pass through the"),
    ):
        found = survey(model, asked, ["integrated_gradients"], progress=False)
    assert refused
    assert_close(plain, found)


def test_memory_that_runs_out_in_a_measure_is_told_and_finished_shards_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing can be halved: here in the statistics of the second prompt's stream."""
    model = load(zoo.entry("llama").build())
    asked, options = prompts(model.hf, (12, 11)), {"batch_tokens": 12, "progress": False}
    whole = survey(model, asked, ["residual"], **options)
    own, calls = residual.angular_distances, itertools.count()

    def distances(*given: Any) -> Tensor:
        return torch.empty(1 << 45, dtype=torch.uint8) if next(calls) else own(*given)

    wanted = r"What is measured of prompts 1 to 1, of up to 11 tokens, does not fit into the"
    monkeypatch.setattr(residual, "angular_distances", distances)
    with pytest.raises(ModelError, match=wanted) as caught:
        survey(model, asked, ["residual"], tmp_path / "run", **options)
    monkeypatch.undo()
    assert str(caught.value).endswith("With out= (--out) finished shards are kept.")
    assert [path.name for path in (tmp_path / "run").glob("shard-*.nc")] == ["shard-00000.nc"]
    assert_same(survey(model, asked, ["residual"], tmp_path / "run", **options), whole)


@pytest.mark.parametrize("room", [16, 32])
def test_pieces_are_calls_of_that_size(room: int) -> None:
    """To the bit for one row, which is halved into no other size on the way.

    A limit of memory also sizes readouts, whose numbers differ by rounding then.
    """
    model = load(zoo.entry("llama").build())
    asked = prompts(model.hf, (16,))
    with little_memory(room) as refused, pytest.warns(UserWarning, match="out of memory"):
        found = survey(model, asked, ["skip", "drop"], progress=False)
    assert min(refused) > room
    with little_memory(room) as refused:
        sized = survey(model, asked, ["skip", "drop"], progress=False, call_tokens=room)
        assert not refused
        roomy = survey(model, asked, ["skip", "drop"], progress=False, memory=memory_for(model, 16, room))
    assert_same(sized, found) if room == 16 else assert_close(sized, found)
    assert_close(sized, roomy)


def memory_for(model: Model, tokens: int, size: int) -> int:
    """What leaves room for calls of so many tokens."""
    plan = Survey(["skip", "drop"]).plan(model, [[1] * tokens])
    return plan.state_bytes([0], plan.measures) + size * bytes_per_token(model.anatomy, tokens)


def test_what_fits_in_no_pieces_is_refused_with_numbers() -> None:
    model = load(zoo.entry("llama").build())
    with (
        little_memory(7),
        pytest.raises(ModelError, match=r"on 1 prompt of 9 tokens does not fit .* GB are free\. Give"),
    ):
        survey(model, prompts(model.hf, (9,)), ["skip"], progress=False)


def test_low_precision_has_its_control_in_every_piece() -> None:
    model = load(zoo.entry("llama").build(dtype=torch.bfloat16))
    asked = prompts(model.hf, (16,))
    with little_memory(48), pytest.warns(UserWarning, match="out of memory"):
        found = survey(model, asked, ["skip"], progress=False)
    plain = survey(model, asked, ["skip"], progress=False)
    np.testing.assert_allclose(found["skip"].effect_all, plain["skip"].effect_all, atol=0.05)
