"""Surveys of stored states: equal to surveys of the model in memory, and no more said than states can tell."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from support import naive, stored, zoo
from support.rounding import assert_same_bits, assert_same_but_rounding
from torch import Tensor

import bathyscope
from bathyscope.errors import ModelError, OptionError, PromptError, StoreError
from bathyscope.measures.registry import MEASURES
from bathyscope.model.anatomy.replay import Replay
from bathyscope.model.states.anatomy import StoredAnatomy
from bathyscope.runs.run import Run

FAMILIES = ("llama", "gemma2", "gpt2", "olmo2", "qwen3_moe", "granite")
LENGTHS = (14, 9, 21, 30, 6)
"""So far apart that each is a batch of its own, in memory too: the same calls in the same shapes."""
OF_PARTS = ("attn", "mlp")
OF_BOUNDARIES = tuple(name for name, declaration in MEASURES.items() if declaration.needs == "boundaries")
"""Measures that read whatever boundaries are stored, as each declares."""
FITTED = ("translated_lens", "jacobian_lens")
"""Measures that read a lens, which is fitted to the blocks."""
PLAIN = tuple(
    name
    for name, declaration in MEASURES.items()
    if declaration.needs in ("boundaries", "last boundary") and name not in FITTED
)
"""Measures that declare that states are enough, and are surveyed without options."""


def dumped(
    folder: Path,
    name: str,
    boundaries: Sequence[int] | None = None,
    layout: str = "vllm",
    lengths: tuple[int, ...] = LENGTHS,
) -> tuple[Path, list[list[int]]]:
    """Write a tiny model, and the states of some prompts."""
    hf = zoo.build(name)
    hf.save_pretrained(folder / "model")
    ids = zoo.prompts(hf, lengths)
    stored.write_states(folder / "dump", hf, ids, boundaries, layout)
    return folder, ids


def survey(folder: Path, measures: str = "residual,lens,tokens", **options: Any) -> Run:
    return bathyscope.survey_states(folder / "dump", folder / "model", measures=measures, progress=False, **options)


def assert_same_values(actual: xr.Dataset, expected: xr.Dataset) -> None:
    """Compare all that states can tell, by the bit; parts of blocks are NaN or absent."""
    for name, values in expected.data_vars.items():
        if any(str(name).endswith(part) or f"_{part}_" in str(name) for part in OF_PARTS):
            assert name not in actual or bool(actual[name].isnull().all()), name
        elif values.dtype.kind in "fi":
            assert actual[name].dims == values.dims
            assert_same_bits(actual[name].values, values.values, str(name))
    for name in expected.dims:
        if name in expected.coords:
            assert actual[name].values.tolist() == expected[name].values.tolist()


@pytest.mark.parametrize(("name", "layout"), list(zip(FAMILIES, (*stored.LAYOUTS, "vllm", "speculators"), strict=True)))
def test_stored_states_give_the_arrays_of_the_model_in_memory(name: str, layout: str, tmp_path: Path) -> None:
    folder, ids = dumped(tmp_path, name, layout=layout)
    measures = ",".join(PLAIN)
    run = survey(folder, measures)
    memory = bathyscope.survey(str(folder / "model"), ids, measures, progress=False)
    assert run.measures == memory.measures
    assert set(run.measures) == set(PLAIN)
    for measure in run.measures:
        assert_same_values(run[measure], memory[measure])


def test_heads_are_those_of_the_file_where_the_library_loads_another(tmp_path: Path) -> None:
    """Loading sets the padding token's row of Youtu's tied embedding to zero; whoever served it need not have."""
    folder, ids = dumped(tmp_path, "youtu")
    run = survey(folder, ",".join(PLAIN))
    as_saved = bathyscope.survey(zoo.build("youtu"), ids, PLAIN, progress=False)
    for measure in run.measures:
        assert_same_values(run[measure], as_saved[measure])
    as_loaded = bathyscope.survey(str(folder / "model"), ids, "lens", progress=False)
    assert not np.array_equal(as_loaded["lens"].entropy, run["lens"].entropy)


@pytest.mark.parametrize("name", FAMILIES[:3])
def test_the_papers_criteria_that_need_no_parts_are_those_of_the_model_in_memory(name: str, tmp_path: Path) -> None:
    folder, ids = dumped(tmp_path, name)
    depths = survey(folder, "effective_depth")["effective_depth"]
    memory = bathyscope.survey(str(folder / "model"), ids, "effective_depth", progress=False)["effective_depth"]
    for criterion in ("kl", "overlap", "interpolated_kl", "interpolated_overlap", "settle", "prediction"):
        for variable in ("depth", "ratio", "ci_low", "ci_high"):
            assert_same_bits(
                depths[variable].sel(estimator=criterion), memory[variable].sel(estimator=criterion), criterion
            )
    for criterion in ("cosine", "centre_of_mass"):
        assert np.isnan(depths["depth"].sel(estimator=criterion))
        assert str(depths["reason"].sel(estimator=criterion).values)


def test_fitted_lenses_read_states_as_they_read_the_model(tmp_path: Path) -> None:
    lengths = (30, 40, 50, 60, 70, 80, 95, 110)
    folder, ids = dumped(tmp_path, "llama", lengths=lengths)
    model = str(folder / "model")
    others = zoo.prompts(zoo.build("llama"), (20, 24), seed=9)
    lens = bathyscope.fit_lens(model, others, out=tmp_path / "lens.safetensors", progress=False)
    assert lens is not None
    options = {"jacobian_lens": {"lens": str(tmp_path / "lens.safetensors")}}
    with pytest.warns(UserWarning, match="fitted to the weights that were served is unknown: states do not tell them"):
        run = survey(folder, "translated_lens,jacobian_lens", **options)
    memory = bathyscope.survey(model, ids, "translated_lens,jacobian_lens", progress=False, **options)  # type: ignore[arg-type]
    for measure in ("translated_lens", "jacobian_lens"):
        assert_same_values(run[measure], memory[measure])
    with pytest.raises(OptionError, match=r"a lens is fitted by gradients through the blocks, and these are states"):
        survey(folder, "jacobian_lens", jacobian_lens={"prompts": others})


def test_states_in_bfloat16_give_the_arrays_of_the_model_in_bfloat16(tmp_path: Path) -> None:
    hf = zoo.build("llama", dtype=torch.bfloat16)
    hf.save_pretrained(tmp_path / "model")
    ids = zoo.prompts(hf, LENGTHS)
    stored.write_states(tmp_path / "dump", hf, ids)
    run = survey(tmp_path, "residual,lens")
    assert run.identity.dtype == "bfloat16"
    memory = bathyscope.survey(str(tmp_path / "model"), ids, "residual,lens", progress=False)
    for measure in run.measures:
        assert_same_values(run[measure], memory[measure])


@pytest.mark.parametrize("name", FAMILIES)
def test_some_boundaries_stand_at_their_addresses(name: str, tmp_path: Path) -> None:
    """Every value is recomputed by hand from the hooked model, and from its own readout."""
    hf = zoo.build(name)
    last = len(naive.blocks_of(hf))
    boundaries = [0, 1, last - 1, last] if last > 3 else [0, 1, last]
    folder, ids = dumped(tmp_path, name, boundaries)
    run = survey(folder, "residual,lens,tokens")
    for number, prompt in enumerate(ids):
        stream_LTD = naive.boundaries(hf, naive.blocks_of(hf), prompt).double()
        residual = run["residual"].isel(prompt=number)
        assert residual["boundary"].values.tolist() == boundaries
        norms = stream_LTD.norm(dim=-1).mean(-1)
        assert_same_but_rounding(residual["norm_resid"], norms[boundaries], hf)
        added = (stream_LTD[1:] - stream_LTD[:-1]).norm(dim=-1).mean(-1)
        known = [block for block in range(last) if {block, block + 1} <= set(boundaries)]
        for block in range(last):
            value = float(residual["norm_block"].sel(block=block))
            assert np.isnan(value) == (block not in known)
            if block in known:
                assert_same_but_rounding(value, added[block], hf)
        angle = _angle(stream_LTD[1, -1], stream_LTD[last, -1])
        told = residual["angular"].sel(tokens="last", boundary=1, distance=last - 1)
        assert abs(float(told) - angle) < 1e-5
        unknown = residual["angular"].sel(tokens="last", boundary=1, distance=1)
        assert np.isnan(float(unknown)) == (2 not in boundaries)
        _require_depths(run, number, hf, stream_LTD.float(), boundaries)


def _angle(first: Tensor, second: Tensor) -> float:
    return float(torch.arccos(torch.cosine_similarity(first, second, dim=0)) / torch.pi)


def _require_depths(run: Run, number: int, hf: torch.nn.Module, stream_LTD: Tensor, boundaries: list[int]) -> None:
    """Recompute the prediction depth of each token: the first stored boundary from which its top-1 token stays."""
    family = naive.family_of(hf)
    norm = hf.get_submodule(family.final_norm or "")
    with torch.no_grad():
        top_BT = torch.stack([hf.get_submodule(family.head)(norm(stream_LTD[b])).argmax(-1) for b in boundaries])
    depths = [
        next(b for place, b in enumerate(boundaries) if bool((column[place:] == column[-1]).all()))
        for column in top_BT.T
    ]
    told = run["tokens"]["prediction_depth"].sel(prompt=number).values[: len(depths)]
    assert told.tolist() == depths
    assert float(run["lens"]["prediction_depth"][number]) == pytest.approx(np.mean(depths))
    kept = run["lens"]["top1_kept"][number]
    assert kept["boundary"].values.tolist() == boundaries
    assert kept.values.tolist() == pytest.approx([np.mean([depth <= b for depth in depths]) for b in boundaries])


def test_the_verdict_reads_some_boundaries_as_the_first_that_was_stored(tmp_path: Path) -> None:
    folder, _ = dumped(tmp_path, "llama", [1, 3, 5])
    run = survey(folder)
    shares = run["lens"]["top1_kept"]
    tokens = run["lens"]["n_averaged"]
    pooled = (shares * tokens).sum("prompt") / tokens.sum()
    first = next(b for b in (1, 3, 5) if float(pooled.sel(boundary=b)) >= 0.5)
    assert run.n_blocks == 5
    assert run.verdict.half.value == first
    assert "read at boundaries 1, 3 and 5 alone: a depth is the first of these" in run.verdict.text
    assert "survey with skip" not in " ".join([run.verdict.text, *run.verdict.details])
    assert run.verdict.head.loss[[0, 2, 4]].tolist() == pytest.approx([np.nan] * 3, nan_ok=True)
    assert run.verdict.head.loss_at_end == pytest.approx(float(_mean(run["lens"], "cross_entropy", 5)))


def _mean(lens: xr.Dataset, name: str, boundary: int) -> xr.DataArray:
    weights = lens["n_averaged_cross_entropy"]
    return (lens[name].sel(boundary=boundary) * weights).sum() / weights.sum()


def test_every_other_measure_is_refused_by_name(tmp_path: Path) -> None:
    folder, _ = dumped(tmp_path, "llama", lengths=(9, 14))
    others = [name for name, declaration in MEASURES.items() if declaration.needs == "blocks"]
    assert "skip" in others
    for name in others:
        with pytest.raises(OptionError, match=rf"^{name} needs the blocks; these are states\. Leave {name} out"):
            survey(folder, f"residual,{name}")


@pytest.mark.parametrize(
    ("boundaries", "measure", "message"),
    [
        ([0, 1, 2, 3, 4], "lens", "lens needs boundary 5, behind the last block, and it is not stored"),
        ([0, 1, 2, 3, 4], "tokens", "tokens needs boundary 5, behind the last block, and it is not stored"),
        ([0, 2, 5], "effective_depth", "effective_depth needs all boundaries 0 to 5, and 3 are stored"),
    ],
)
def test_a_measure_of_boundaries_that_are_missing_is_refused(
    boundaries: list[int], measure: str, message: str, tmp_path: Path
) -> None:
    folder, _ = dumped(tmp_path, "llama", boundaries, lengths=(9, 14))
    with pytest.raises(OptionError, match=message):
        survey(folder, measure)


def test_all_means_what_these_states_allow_and_nobody_named_is_refused(tmp_path: Path) -> None:
    folder, _ = dumped(tmp_path, "llama", [0, 1, 4], lengths=(9, 14, 20, 30))
    of_blocks = ", ".join(name for name, declaration in MEASURES.items() if declaration.needs == "blocks")
    with pytest.warns(
        UserWarning, match=f"Left out, since they need the blocks and these are states: {of_blocks}; lens needs"
    ):
        assert survey(folder, "all").measures == OF_BOUNDARIES
    assert bathyscope.survey_states(folder / "dump", folder / "model", progress=False).measures == ("residual",)


def test_a_run_says_which_files_and_boundaries_it_is_of_and_is_resumed_by_no_others(tmp_path: Path) -> None:
    folder, _ = dumped(tmp_path, "llama", [0, 2, 5])
    run = survey(folder, out=tmp_path / "run")
    states = run.identity.states
    assert states is not None
    assert (states["layout"], states["boundaries"], states["files"]) == ("vllm", [0, 2, 5], len(LENGTHS))
    notes = run.manifest["record"]["notes"]["states"]
    assert notes["folder"] == "dump"
    assert sorted(notes["files"]) == [f"cmpl-{number}-0.safetensors" for number in range(len(LENGTHS))]
    assert any("was not compared" in check for check in notes["checks"])
    assert run.stored == bathyscope.open(tmp_path / "run").stored == (0, 2, 5)
    assert_same_bits(survey(folder, out=tmp_path / "run")["residual"]["norm_resid"], run["residual"]["norm_resid"])
    stored.write_states(folder / "dump", zoo.build("llama"), zoo.prompts(zoo.build("llama"), LENGTHS), [0, 3, 5])
    with pytest.raises(StoreError, match="states"):
        survey(folder, out=tmp_path / "run")
    with pytest.raises(StoreError):
        bathyscope.survey(str(folder / "model"), [[5, 6, 7]], "residual", out=tmp_path / "run", progress=False)


def test_prompts_name_stored_states_and_others_are_refused_where_they_part(tmp_path: Path) -> None:
    folder, ids = dumped(tmp_path, "llama", lengths=(9, 14, 20))
    prompts = [bathyscope.Prompt(ids=ids[n], answer_tokens=2, id=f"mine-{n}", labels={"level": n}) for n in (2, 0)]
    run = survey(folder, prompts=prompts, lens={"positions": "answer"})
    assert run.prompts.names == ["mine-2", "mine-0"]
    assert run["lens"]["level"].values.tolist() == [2, 0]
    assert run["lens"]["n_averaged"].values.tolist() == [2, 2]
    other = [*ids[1][:6], 77, *ids[1][7:]]
    with pytest.raises(PromptError, match=rf"nearest, cmpl-1-0, has the token id {ids[1][6]} at place 6, .* prompt 77"):
        survey(folder, prompts=[other])
    with pytest.raises(PromptError, match=r"nearest, cmpl-1-0, has 14 tokens, and the prompt 15: special tokens or a"):
        survey(folder, prompts=[[*ids[1], 5]])


def test_no_more_than_one_batch_of_states_is_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, _ = dumped(tmp_path, "llama", lengths=(9, 14, 20, 30, 40, 55, 70))
    alive: list[weakref.ref[Tensor]] = []
    read = StoredAnatomy.replay

    def replay(self: StoredAnatomy, ids_BT: Tensor) -> Replay:
        assert [ref for ref in alive if ref() is not None] == []
        of_batch = read(self, ids_BT)
        alive.append(weakref.ref(of_batch._states_LBTD))  # type: ignore[attr-defined]
        return of_batch

    monkeypatch.setattr(StoredAnatomy, "replay", replay)
    survey(folder, "residual,lens,tokens,effective_depth")
    assert len(alive) == 7


def test_batches_are_as_large_as_the_room_for_states_allows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, _ = dumped(tmp_path, "llama", lengths=(9,) * 8)
    shapes: list[tuple[int, ...]] = []
    read = StoredAnatomy.replay

    def replay(self: StoredAnatomy, ids_BT: Tensor) -> Replay:
        shapes.append(tuple(ids_BT.shape))
        return read(self, ids_BT)

    monkeypatch.setattr(StoredAnatomy, "replay", replay)
    survey(folder, "residual")
    assert shapes == [(8, 9)]
    # states of 18 tokens: six boundaries of width 64 in float32
    monkeypatch.setattr("bathyscope.surveying.stored._STATE_BYTES", 18 * 6 * 64 * 4)
    monkeypatch.setattr("bathyscope.surveying.sharding._BATCH_BYTES", 0)
    shapes.clear()
    survey(folder, "residual")
    assert shapes == [(2, 9)] * 4


def test_a_file_that_changes_during_the_survey_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, _ = dumped(tmp_path, "llama", lengths=(9, 14))
    read = StoredAnatomy.replay

    def replay(self: StoredAnatomy, ids_BT: Tensor) -> Replay:
        path = folder / "dump" / "cmpl-1-0.safetensors"
        path.write_bytes(path.read_bytes() + b" ")
        return read(self, ids_BT)

    monkeypatch.setattr(StoredAnatomy, "replay", replay)
    with pytest.raises(ModelError, match=r"cmpl-1-0.safetensors has changed since it was first looked at"):
        survey(folder, "residual")


def test_a_verdict_says_whether_its_predictions_were_served(tmp_path: Path) -> None:
    folder, ids = dumped(tmp_path, "llama")
    said = "predictions as the head gives them, not compared with those that were served"
    assert said in survey(folder, out=tmp_path / "run").verdict.text
    assert said in bathyscope.open(tmp_path / "run").verdict.text
    stored.write_states(folder / "dump", zoo.build("llama"), ids, served="top1_ids")
    assert said not in survey(folder).verdict.text
    assert said not in bathyscope.survey(str(folder / "model"), ids, "lens", progress=False).verdict.text


def test_runs_of_states_are_compared_by_the_estimators_that_states_tell(tmp_path: Path) -> None:
    """Equal to the comparison of the models in memory, without the readings that need the blocks."""
    of_lens = ["kl", "overlap", "interpolated_kl", "settle", "prediction"]
    first, ids = dumped(tmp_path / "first", "llama")
    second = tmp_path / "second"
    other = zoo.build("gemma2")
    other.save_pretrained(second / "model")
    stored.write_states(second / "dump", other, ids)
    states = [survey(folder) for folder in (first, second)]
    measures = "residual,lens,skip,tokens"
    models = [bathyscope.survey(str(folder / "model"), ids, measures, progress=False) for folder in (first, second)]
    expected = bathyscope.compare(models, estimators=of_lens, resamples=50)
    assert not bool(expected.readings["difference"].isnull().any())
    for runs in (states, [states[0], models[1]], [models[0], states[1]]):
        result = bathyscope.compare(runs, estimators=of_lens, resamples=50)
        assert result.data["kind"].values.tolist() == expected.data["kind"].values.tolist() == ["paired"]
        for name in ("reference_ratio", "other_ratio", "difference", "ci_low", "ci_high", "p_value", "n_prompts"):
            assert_same_bits(result.data[name].values, expected.data[name].values, name)
        readings = result.readings.isel(comparison=0)
        # what tokens tell is there as in memory, and what the effects of blocks tell is not
        for name in ("half", "tokens_90", "readable"):
            told = readings["difference"].sel(reading=name)
            assert_same_bits(told, expected.readings["difference"].isel(comparison=0).sel(reading=name))
        for name in ("own", "later"):
            assert bool(readings["difference"].sel(reading=name).isnull())
        assert result.blocks is None
        assert "skip." not in " ".join(result.notes)
        assert "effect" not in result.text


def test_a_comparison_names_what_a_chosen_estimator_needs_and_states_lack(tmp_path: Path) -> None:
    folder, ids = dumped(tmp_path / "all", "llama")
    run = survey(folder)
    model = bathyscope.survey(str(folder / "model"), ids, "residual,lens,skip", progress=False)
    refused = {
        "centre_of_mass": r"lacks skip, which centre_of_mass is read off; .* Choose among .*: kl, overlap, .*settle",
        "cosine": r"lacks the parts of blocks \(cos_attn, cos_mlp, cos_block\), which cosine is read off",
    }
    for name, message in refused.items():
        with pytest.raises(OptionError, match=message):
            bathyscope.compare([run, model], estimators=["settle", name])
    with pytest.raises(OptionError, match=r"lacks lens, which settle is read off; .* Survey the model itself"):
        bathyscope.compare([survey(folder, "residual"), model], estimators=["settle"])
    some, _ = dumped(tmp_path / "some", "llama", [1, 3, 5])
    with pytest.raises(OptionError, match=r"stored states at 3 of 6 boundaries.* of all of them\. Survey states of"):
        bathyscope.compare([survey(some), model], estimators=["settle"])
