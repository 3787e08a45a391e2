"""``bathyscope.compare``: the right numbers in the right places, and clear refusals."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from statsmodels.stats.multitest import multipletests
from support import waves, zoo
from support.compared import a_run, without

import bathyscope
from bathyscope.analysis.depths.draws import draw_as_one
from bathyscope.analysis.depths.side import sides_of
from bathyscope.analysis.depths.tables import difference_table, no_difference
from bathyscope.errors import OptionError, StoreError
from bathyscope.runs.run import Run
from bathyscope.statistics.difference import paired_difference, two_sample_difference
from bathyscope.statistics.effective_depth import ESTIMATORS, effective_depth
from bathyscope.statistics.sampling import Sampling

ONE, TWO = a_run(model="own/one"), a_run(model="own/two", shift=0.1)


def test_two_copies_of_a_model_do_not_differ_in_anything() -> None:
    found = bathyscope.compare([ONE, a_run(model="own/copy")], resamples=200)
    assert found.data["kind"].item() == "paired"
    for name in ("difference", "depth_difference"):
        np.testing.assert_array_equal(found.data[name].values, np.zeros((1, len(ESTIMATORS))), err_msg=name)
    # six prompts may all agree where others do not
    assert (found.data["ci_low"].values < 0).all()
    assert (found.data["ci_high"].values > 0).all()
    tested = [name for name in ESTIMATORS if name not in ("cosine", "kl", "overlap")]
    assert (found.data["p_value"].sel(estimator=tested).values == 1).all()
    assert found.summary().startswith("0 of 6 tested intervals exclude 0; about 0.3 would by chance")
    assert found.notes == ()


def test_every_number_is_that_of_the_statistics() -> None:
    found = bathyscope.compare([ONE, TWO], resamples=300, seed=4, level=0.9)
    first, second = (side.readings() for side in sides_of([ONE, TWO]))
    one = found.data.sel(comparison="two − one")
    for name in ESTIMATORS:
        wanted = paired_difference(first[name], second[name], Sampling(300, level=0.9, seed=4))
        cell = one.sel(estimator=name)
        for variable, field in {
            "difference": "estimate",
            "ci_low": "ci_low",
            "ci_high": "ci_high",
            "p_value": "p_value",
            "positive_share": "positive_share",
            "exists_share": "exists_share",
            "effect_size": "effect_size",
        }.items():
            np.testing.assert_equal(cell[variable].item(), getattr(wanted, field), err_msg=f"{name}: {variable}")
        assert (cell["reference_ratio"].item(), cell["other_ratio"].item()) == wanted.estimates
        assert cell["depth_difference"].item() == pytest.approx(10 * wanted.estimate)
        own = effective_depth(found.sides[0].curves, Sampling(300, level=0.9, seed=4))[name]
        assert found.runs["ratio"].sel(run="one", estimator=name).item() == own.ratio
        assert found.runs["ci_low"].sel(run="one", estimator=name).item() == pytest.approx(own.ci_low / 10)
    p = one["p_value"].to_series().dropna()
    np.testing.assert_allclose(one["p_holm"].to_series()[p.index], multipletests(p, method="holm")[1])
    assert (found.level, found.quantity) == (0.9, "difference of ratio")
    shift = one["difference"].sel(estimator=["interpolated_cosine", "interpolated_kl", "settle", "prediction"])
    np.testing.assert_allclose(shift.values, 0.1, atol=0.01)


def test_prompts_in_another_order_are_the_same_prompts() -> None:
    """A run and itself with its prompts turned about: resamples that kept to the order would differ."""
    order = [3, 0, 5, 1, 4, 2]
    turned = {f"/{name}": ONE[name].isel(prompt=order) for name in ONE.measures}
    changed = {**ONE.manifest["identity"], "model": "own/copy", "prompt_hash": "2", "tokenizer_hash": "u" * 64}
    other = Run(xr.DataTree.from_dict(turned), {**ONE.manifest, "identity": changed})
    found = bathyscope.compare([ONE, other], resamples=200)
    assert found.data["kind"].item() == "paired"
    assert found.data["ci_low"].notnull().all()
    np.testing.assert_allclose(found.data["difference"].values, 0, atol=1e-9)
    tested = [name for name in ESTIMATORS if name not in ("cosine", "kl", "overlap")]
    np.testing.assert_allclose(found.data["standard_error"].sel(estimator=tested).values, 0, atol=1e-9)


def test_unequal_numbers_of_blocks_compare_ratios_only() -> None:
    found = bathyscope.compare([ONE, a_run(model="own/deep", blocks=20)], resamples=100)
    assert found.data["depth_difference"].isnull().all()
    np.testing.assert_allclose(found.data["difference"].sel(estimator="settle").values, 0, atol=0.06)


def test_other_data_are_two_samples() -> None:
    found = bathyscope.compare([ONE, a_run(model="own/one", dataset="b.jsonl", seed=3, prompts=9)], resamples=100)
    assert found.data["kind"].item() == "two-sample"
    assert (found.data["n_prompts"].values == 15).all()
    unpaired = bathyscope.compare([ONE, TWO], paired=False, resamples=400)
    paired = bathyscope.compare([ONE, TWO], resamples=400)
    errors = [c.data["standard_error"].sel(estimator="settle").item() for c in (unpaired, paired)]
    assert errors[0] > 5 * max(errors[1], 1e-9)


def test_a_slope_pairs_runs_of_the_same_prompts() -> None:
    runs = [a_run(model=f"own/m{blocks}", blocks=blocks, shift=0.05 * n) for n, blocks in enumerate((8, 16, 32))]
    found = bathyscope.compare(runs, question="size", resamples=100)
    assert found.data["kind"].item() == "paired"
    settle = found.data.sel(estimator="settle")
    ratios = [found.runs["ratio"].sel(run=f"m{blocks}", estimator="settle").item() for blocks in (8, 16, 32)]
    assert settle["difference"].item() == pytest.approx(np.polyfit([3, 4, 5], ratios, 1)[0])
    assert (settle["reference_ratio"].item(), settle["other_ratio"].item()) == (ratios[0], ratios[2])
    mixed = bathyscope.compare([*runs[:2], a_run(model="own/m32", blocks=32, seed=5)], question="size", resamples=50)
    assert mixed.data["kind"].item() == "partly paired"
    assert "the prompts differ" in mixed.notes[0]
    assert (mixed.data["n_prompts"].values == 12).all()


def test_levels_within_a_run_are_two_samples() -> None:
    run = a_run(prompts=8, labels={"level": [1, 3, 2, 1, 3, 2, 1, 3]})
    found = bathyscope.compare([run], question="difficulty", resamples=100)
    assert found.data["kind"].item() == "two-sample"
    depth = run["lens"]["settle_depth"].values
    ratio = [depth[chosen].mean() / 10 for chosen in ([0, 3, 6], [1, 4, 7])]  # each prompt counts the same
    assert found.data["difference"].sel(estimator="settle").item() == pytest.approx(ratio[1] - ratio[0])
    assert found.runs["prompts"].values.tolist() == [3, 3]


def test_a_missing_crossing_is_explained() -> None:
    late = a_run(model="own/late", shift=2.0)
    found = bathyscope.compare([ONE, late], resamples=50).data.sel(comparison="late − one")
    kl = found.sel(estimator="kl")
    assert np.isnan(kl["difference"].item())
    assert kl["reason"].item().startswith("late: KL never falls below 0.5 of its maximum")
    assert kl["reference_ratio"].item() > 0
    assert found["reason"].sel(estimator="settle").item() == ""
    single = bathyscope.compare([a_run(prompts=1), a_run(prompts=1, model="own/b")], resamples=50).data
    assert (single["reason"].sel(estimator="settle").item()) == (
        "an interval needs at least two different prompts with values on each side"
    )
    assert single["difference"].sel(estimator="settle").item() == 0


def test_what_differs_besides_is_said() -> None:
    measures = {
        "residual": {},
        "skip": {},
        "lens": {"k": 10},
        "effective_depth": {"kl_fraction": 0.3, "level": 0.5, "cluster": "a"},
    }
    found = bathyscope.compare([ONE, a_run(model="own/two", measures=measures, dtype="bfloat16")], resamples=50)
    assert found.notes == (
        "one and two were measured differently: dtype 'float32' and 'bfloat16'; effective_depth.kl_fraction 0.5 and "
        "0.3; lens.k None and 10",
    )
    assert found.sides[1].options.kl_fraction == 0.5
    unasked = a_run(model="own/b", measures={one: {} for one in ("residual", "lens", "skip")})
    asked = a_run(measures={**unasked.identity.measures, "effective_depth": {"kl_fraction": 0.5, "level": 0.9}})
    assert bathyscope.compare([asked, unasked], resamples=50).notes == ()
    own = bathyscope.compare([a_run(measures=measures), a_run(model="own/b", measures=measures)], resamples=50)
    assert [side.options.kl_fraction for side in own.sides] == [0.3, 0.3]


def test_weights_of_fewer_bits_are_said_to_be() -> None:
    """A copy in 8 bits next to its original differs by rounding, and by nothing that was trained."""
    rounded, alike = (a_run(model=f"own/{name}", packing="gptq 4-bit, group 128") for name in ("two", "three"))
    assert bathyscope.compare([ONE, rounded], resamples=50).notes == (
        "one and two were measured differently: weights 'plain numbers' and 'unpacked from gptq 4-bit, group 128'",
    )
    assert bathyscope.compare([alike, rounded], resamples=50).notes == ()


def test_chosen_estimators_and_a_data_frame() -> None:
    found = bathyscope.compare([ONE, TWO], estimators=["settle", "kl"], resamples=50)
    frame = found.to_dataframe()
    assert frame["estimator"].tolist() == ["settle", "kl"]
    assert repr(found) == f"<Comparison two − one. {found.summary()}>"
    assert frame.columns[:5].tolist() == ["comparison", "reference", "other", "kind", "estimator"]
    assert not found.summary().endswith("give more.")
    few = bathyscope.compare([ONE, TWO], resamples=50)
    assert few.summary().endswith("No p-value can be, with so few resamples for so many tests: give more.")
    whole = bathyscope.compare([ONE, TWO], estimators=["kl"], resamples=50)
    assert whole.summary() == "1 of 1 intervals exclude 0; none of these estimators has a test."


BOOKS = ["a", "a", "b", "c", "c", "c", "b", "d", "a"]


def booked(model: str, books: list[Any] = BOOKS, **changes: Any) -> Run:
    return a_run(model=model, prompts=len(books), labels={"book": books}, **changes)


def test_clusters_are_those_of_the_statistics() -> None:
    runs = [booked("own/one"), booked("own/two", shift=0.1)]
    found = bathyscope.compare(runs, cluster="book", resamples=200)
    assert found.notes == ("prompts of one book are resampled as one; number of these: one 4, two 4",)
    assert found.data.attrs["cluster"] == "book"
    number = np.array(["abcd".index(book) for book in BOOKS])
    plain = [sides_of([run])[0].readings()["settle"] for run in runs]
    clustered = [dataclasses.replace(reading, cluster=number) for reading in plain]
    settle = found.data.sel(estimator="settle", comparison="two − one")
    wanted = paired_difference(*clustered, Sampling(200))
    assert (settle["ci_low"].item(), settle["ci_high"].item()) == (wanted.ci_low, wanted.ci_high)
    own = effective_depth(dataclasses.replace(sides_of(runs)[0].curves, cluster=number), Sampling(200))["settle"]
    assert found.runs["ci_low"].sel(run="one", estimator="settle").item() == pytest.approx(own.ci_low / 10)
    assert own.ci_low != effective_depth(sides_of(runs)[0].curves, Sampling(200))["settle"].ci_low


def test_clusters_that_read_alike_are_the_same_whatever_they_are_written_as() -> None:
    books = ["abcd".index(book) for book in BOOKS]
    written = [booked("own/one", books), booked("own/two", [str(book) for book in books], shift=0.1)]
    alike = [booked("own/one", books), booked("own/two", books, shift=0.1)]
    one, other = (bathyscope.compare(runs, cluster="book", resamples=50).data for runs in (written, alike))
    assert one.equals(other)


def test_other_prompts_of_the_same_clusters_are_drawn_together() -> None:
    """Two samples of the same three books, and of other books."""
    one, two = booked("own/one"), booked("own/two", seed=1, dataset="b.jsonl")
    readings = [side.readings()["settle"] for side in draw_as_one(sides_of([one, two]), "book")]
    apart = dataclasses.replace(readings[1], cluster=readings[1].cluster + 10)
    found, alone = (
        bathyscope.compare([one, other], cluster="book", estimators=["settle"], resamples=200).data
        for other in (two, booked("own/two", [book + "2" for book in BOOKS], seed=1, dataset="b.jsonl"))
    )
    assert found["kind"].item() == alone["kind"].item() == "two-sample"
    assert found["ci_low"].item() == two_sample_difference(*readings, Sampling(200)).ci_low
    assert alone["ci_low"].item() == two_sample_difference(readings[0], apart, Sampling(200)).ci_low
    assert found["ci_low"].item() != alone["ci_low"].item()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cluster": "boo"}, "one: The prompts of this run have no label 'boo'. Did you mean 'book'?"),
        ({"cluster": "chapter"}, r"one: cluster='chapter' \(--cluster\): every prompt has a chapter of its own"),
        ({"cluster": "half"}, r"one: .* the 9 prompts lie in 2 clusters \(x, y\), and 3 at least are needed"),
        (
            {"cluster": "gap"},
            r"one: .* 2 of 9 prompts have no label 'gap', the first of them '1'; every prompt belongs",
        ),
        ({"cluster": "dataset"}, r"one: .* the 9 prompts lie in 1 cluster \(made up\)"),
        ({"equivalence": 0}, "The bound of equivalence is 0; differences smaller than it count as none"),
        ({"equivalence": -0.1}, "The bound of equivalence is -0.1"),
        ({"equivalence": float("nan")}, "The bound of equivalence is nan"),
        ({"equivalence": float("inf")}, "The bound of equivalence is inf"),
        ({"equivalence": 1}, "in ratio holds every difference there can be; give less than 1, or equivalence_unit="),
        ({"equivalence": 10, "equivalence_unit": "blocks"}, "give less than all blocks"),
        (
            {"equivalence_unit": "blocks"},
            r"equivalence_unit='blocks' is the unit of a bound; give equivalence=1 \(--equivalence 1\), or leave",
        ),
        ({"equivalence_unit": "blocks", "question": "reasoning"}, "is the unit of a bound; give equivalence=1"),
        (
            {"equivalence": 1, "equivalence_unit": "block"},
            "equivalence_unit='block' is unknown. Did you mean 'blocks'[?] Allowed: ratio, blocks",
        ),
    ],
)
def test_clusters_and_bounds_that_cannot_be_are_refused_before_anything_is_computed(
    options: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bathyscope.analysis.depths.side.effective_depth", pytest.fail)
    labels = {"book": BOOKS, "chapter": list(range(9)), "half": list("xxxxxyyyy"), "gap": ["a", "", *"bcabc", "", "b"]}
    runs = [a_run(model=f"own/{name}", prompts=9, labels=labels) for name in ("one", "two")]
    with pytest.raises(OptionError, match=said):
        bathyscope.compare(runs, **options)


def test_prompts_that_cannot_be_paired_are_refused_before_anything_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bathyscope.analysis.depths.side.effective_depth", pytest.fail)
    runs = [a_run(model=f"own/{name}", ids=[name + str(number) for number in range(6)]) for name in ("one", "two")]
    with pytest.raises(OptionError, match=r"paired=True \(--paired\), but one and two have no prompt id in common"):
        bathyscope.compare(runs, paired=True)


@pytest.mark.parametrize(
    "options",
    [
        {"by": "level"},
        {"against": "parameters"},
        {"all_pairs": True, "question": "size"},
        {"pairs": [(0, 1)], "question": "size"},
        {"equivalence": 2},
        {"equivalence": 0},
        {"equivalence_unit": "blocks"},
        {"estimators": ["nonsense"]},
    ],
    ids=str,
)
def test_options_that_no_runs_could_have_are_refused_before_runs_are_opened(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        bathyscope.compare(["no/such/run", "nor/this"], **options)


def test_the_same_prompts_need_the_same_clusters() -> None:
    with pytest.raises(OptionError, match=r"put them into different clusters \(2 of 9, the first of them '7'\)"):
        bathyscope.compare([booked("own/one"), booked("own/two", [*BOOKS[:7], "a", "d"])], cluster="book", resamples=20)
    level = {"level": [1] * 5 + [2] * 4, "book": ["a", "a", "b", "b", "b", "c", "c", "d", "e"]}
    with pytest.raises(OptionError, match="level 1 has prompts of 2 book, and 3 at least are needed"):
        bathyscope.compare([a_run(prompts=9, labels=level)], question="difficulty", cluster="book")


def test_clusters_of_the_same_tokens_are_not_joined_where_two_runs_contradict() -> None:
    ids = zoo.prompts(zoo.build("llama"), [16] * 8)

    def surveyed(labels: str) -> Run:
        given = [bathyscope.Prompt(ids=own, labels={"doc": label}) for own, label in zip(ids, labels, strict=True)]
        return bathyscope.survey(waves.loaded("llama"), given, ["residual", "lens", "skip"], progress=False)

    one = surveyed("aabbccdd")
    with pytest.raises(OptionError, match=r"put them into different clusters \(6 of 8, the first of them '1'\)"):
        bathyscope.compare([one, surveyed("abcdabcd")], cluster="doc", resamples=20)
    with pytest.raises(OptionError, match=r"put them into different clusters \(1 of 8, the first of them '7'\)"):
        bathyscope.compare([one, surveyed("aabbccda")], cluster="doc", resamples=20)
    # what the sentence advises can be done
    for other, paired in (("aabbccdd", None), ("abcdabcd", False)):
        found = bathyscope.compare([one, surveyed(other)], cluster="doc", paired=paired, resamples=20)
        assert any("number of these: LlamaForCausalLM (1) 4, LlamaForCausalLM (2) 4" in note for note in found.notes)


def test_no_difference_can_be_found() -> None:
    """In the data, the sentence, and the tables; a bound of one block is a tenth of the ratio of ten blocks."""
    near, far = (a_run(model=f"own/{name}", shift=by, uneven=1e-7) for name, by in (("near", 0.004), ("far", 0.2)))
    chosen = ["kl", "interpolated_kl", "settle"]
    found = bathyscope.compare(
        [ONE, near, far], estimators=chosen, equivalence=1, equivalence_unit="blocks", resamples=200
    )
    readings = [side.readings()["settle"] for side in sides_of([ONE, near])]
    p = found.data["p_equivalence"].sel(estimator="settle").values
    assert p[0] == paired_difference(*readings, Sampling(200), bound=0.1).p_equivalence < 0.01
    assert p[1] > 0.95
    assert found.data["equivalence"].values.tolist() == [0.1, 0.1]
    assert found.summary().endswith("4 tests ask for a difference of more than 1 block, and 2 rule it out.")
    (said,), (other,) = no_difference(found, 0), no_difference(found, 1)
    assert said.startswith("No difference larger than 1 block: KL, interpolated (p = ")
    assert other == "No estimator rules out a difference larger than 1 block."
    assert difference_table(found, 0).headings[7:9] == ["Holm", "p none"]
    plain = bathyscope.compare([ONE, near], resamples=50)
    assert "p_equivalence" not in plain.data
    assert "p none" not in difference_table(plain, 0).headings
    assert no_difference(plain, 0) == []


def test_questions_can_be_answered_with_no() -> None:
    """The same ratio at every size, and no increase with difficulty: within 0.05 unless said otherwise."""
    sizes = [
        a_run(model=f"own/m{blocks}", blocks=blocks, shift=1e-3 * n, uneven=1e-7)
        for n, blocks in enumerate((8, 16, 32))
    ]
    found = bathyscope.compare(sizes, question="size", resamples=100, estimators=["settle"])
    assert found.data["p_equivalence"].item() < 0.02
    assert found.summary().endswith("1 test asks for a slope of more than 0.05, and 1 rules it out.")
    growing = [
        a_run(model=f"own/m{blocks}", blocks=blocks, shift=0.05 * n, uneven=1e-7)
        for n, blocks in enumerate((8, 16, 32))
    ]
    closer = bathyscope.compare(growing, question="size", resamples=100, estimators=["settle"], equivalence=0.04)
    assert closer.data["p_equivalence"].item() > 0.95
    with pytest.raises(OptionError, match=r"'slope over 3 runs on stories.jsonl' a slope has none of its own"):
        bathyscope.compare(sizes, question="size", equivalence=1, equivalence_unit="blocks")
    with pytest.raises(OptionError, match=r"'m16 − m8' the models have 8 and 16. Give the bound as a ratio"):
        bathyscope.compare(sizes[:2], equivalence=1, equivalence_unit="blocks")


def test_bad_input_is_refused_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"got no run: compare\(\[one, other\]\)"):
        bathyscope.compare([])
    with pytest.raises(OptionError, match=r"list of runs .* got a single one"):
        bathyscope.compare(ONE)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"The same run was given twice \(one in memory\); .* Give each run once"):
        bathyscope.compare([ONE, ONE])
    placed = [dataclasses.replace(run, path=tmp_path / "x" / ".." / "run") for run in (ONE, TWO)]
    with pytest.raises(OptionError, match="The same run was given twice"):
        bathyscope.compare(placed)
    halves = [placed[0].select(prompts=chosen) for chosen in ("0-2", "3-5")]
    with pytest.raises(OptionError, match=r"Parts of one run were given \(.*run'\).* --by LABEL"):
        bathyscope.compare(halves)
    halves = [ONE.select(prompts=chosen) for chosen in ("0-2", "3-5")]
    for pair in (halves, [ONE, halves[0]], [placed[0], halves[1]]):
        with pytest.raises(OptionError, match=r"Parts of one run were given \(.*\).* --by LABEL"):
            bathyscope.compare(pair)
    parts = [dataclasses.replace(run, path=tmp_path / f"part {n}") for n, run in enumerate((ONE, ONE), 1)]
    for place, part in enumerate(parts):
        record = {**ONE.manifest["record"], "finished": None, "shards": [{"index": place}]}
        parts[place] = dataclasses.replace(part, manifest={**ONE.manifest, "record": record})
    with pytest.raises(OptionError, match=r"hold 1 and 1 of the \d shards of one survey \(--part\): they are") as told:
        bathyscope.compare(parts)
    assert f"bathyscope survey join '{tmp_path}/part 1' '{tmp_path}/part 2' --out RUN" in str(told.value)
    with pytest.raises(OptionError, match=r"one lacks lens, skip \(it holds: residual\); .* 'effective_depth'\]"):
        bathyscope.compare([without(ONE, "lens", "skip"), TWO])
    old = dataclasses.replace(ONE, tree=ONE.tree.copy())
    old.tree["lens"] = ONE.tree["lens"].to_dataset().drop_vars("settle_depth")
    with pytest.raises(OptionError, match=r"one was measured without the variable 'settle_depth', which .* Survey"):
        bathyscope.compare([old, TWO])
    with pytest.raises(StoreError, match=r"There is no run in '.*nowhere'"):
        bathyscope.compare([ONE, tmp_path / "nowhere"])
    with pytest.raises(OptionError, match=r"no estimator 'kll'. Did you mean 'kl'\? Allowed: cosine, kl"):
        bathyscope.compare([ONE, TWO], estimators=["kll"])
    with pytest.raises(OptionError, match="No estimator was chosen"):
        bathyscope.compare([ONE, TWO], estimators=[])
    with pytest.raises(OptionError, match="estimators: 'kl' is given twice; give it once"):
        bathyscope.compare([ONE, TWO], estimators=["kl", "cosine", "kl"])
    for pair in ((0, 2), (1, 1), (0,)):
        with pytest.raises(OptionError, match=r"does not name two of the 2 runs; .* from 0 to 1"):
            bathyscope.compare([ONE, TWO], pairs=[pair])  # type: ignore[list-item]
    with pytest.raises(OptionError, match=r"pairs=\[\] names nothing"):
        bathyscope.compare([ONE, TWO], pairs=[])
    with pytest.raises(OptionError, match=r"level=95\.0 is out of range; allowed: 0\.01 to 0\.9999"):
        bathyscope.compare([ONE, TWO], level=95)
    with pytest.raises(OptionError, match="seed=-1 is out of range; allowed: 0 to 4294967295"):
        bathyscope.compare([ONE, TWO], seed=-1)


@pytest.mark.parametrize("runs", [np.zeros(3), xr.DataArray([1.0, 2.0]), np.array([])], ids=["array", "named", "empty"])
def test_arrays_are_no_list_of_runs(runs: Any) -> None:
    with pytest.raises(OptionError, match=r"compare\(\) takes a list of runs or of their folders"):
        bathyscope.compare(runs)
