"""Bugs in what is made of results: statistics, store, comparison and verdict."""

from __future__ import annotations

from bug import Bug

_STATISTICS = (
    Bug(
        "statistics/bootstrap",
        "resamples-with-the-populations-deviation",
        "existing.std(ddof=1)",
        "existing.std()",
        "statistics/test_bootstrap.py",
    ),
    Bug(
        "statistics/crossing",
        "a-cosine-of-zero-is-no-crossing",
        "(curve[..., 1:] >= 0)",
        "(curve[..., 1:] > 0)",
        "statistics/test_crossing.py",
    ),
    Bug(
        "statistics/crossing",
        "the-threshold-itself-counts",
        "(curve[..., :-1] < 0) & _is_finite(curve)\n    index",
        "(curve[..., :-1] <= 0) & _is_finite(curve)\n    index",
        "statistics/test_crossing.py",
    ),
    Bug(
        "statistics/effective_depth",
        "intervals-end-a-block-early",
        "weights, limits=(0.0, last), curve=name",
        "weights, limits=(0.0, last - 1), curve=name",
        "analysis/depths/test_readings.py",
    ),
    Bug(
        "statistics/effective_depth",
        "ratios-are-cut-below-the-last-block",
        "((limit + self.offset) / n_blocks for limit in self.limits)",
        "(limit / n_blocks for limit in self.limits)",
        "analysis/depths/test_readings.py",
    ),
    Bug(
        "statistics/effective_depth",
        "the-effect-weighs-by-tokens",
        "layer_effect(effect),\n        np.ones(len(curves.n_tokens)),",
        "layer_effect(effect),\n        curves.n_tokens,",
        "statistics/test_effective_depth.py",
    ),
    Bug(
        "statistics/reduce",
        "missing-values-count-as-zero",
        "mass = weights @ (~np.isnan(flat)).astype(np.float64)",
        "mass = weights.sum(axis=-1, keepdims=True)",
        "statistics/test_reduce.py",
    ),
    Bug(
        "statistics/difference",
        "a-paired-difference-of-the-wrong-sign",
        "[[Term(first, -1.0), Term(second, 1.0)]]",
        "[[Term(first, 1.0), Term(second, -1.0)]]",
        "statistics/test_difference.py",
    ),
    Bug(
        "statistics/permutation",
        "a-dealing-without-an-estimate-is-no-difference",
        "nan=np.inf",
        "nan=0.0",
        "statistics/test_permutation.py",
    ),
    Bug(
        "statistics/trend",
        "one-degree-of-freedom-for-all-levels",
        "/ (y.size - levels.size))",
        "/ (y.size - 1))",
        "statistics/test_trend.py",
    ),
    Bug(
        "statistics/stages",
        "held-out-prompts-choose-their-own-breaks",
        "Curves(curves.by_prompt[~is_held_out], curves.fixed)",
        "Curves(curves.by_prompt, curves.fixed)",
        "statistics/test_stages.py",
    ),
    Bug(
        "statistics/influence",
        "the-skipped-block-depends-on-itself",
        "dtype=bool), 1)",
        "dtype=bool), 0)",
        "statistics/test_influence.py",
    ),
    Bug(
        "statistics/moments",
        "pieces-merge-with-a-wrong-fourth-power",
        "(n * n - n * m + m * m)",
        "(n * n + n * m + m * m)",
        "statistics/test_moments.py",
    ),
    Bug(
        "statistics/stages",
        "the-upper-end-is-rounded-inwards",
        'above, method="higher")',
        'above, method="lower")',
        "statistics/test_stages.py",
    ),
    Bug(
        "statistics/hsic",
        "row-means-with-the-diagonal",
        "means_N, mean = sums_N / (n - 2),",
        "means_N, mean = sums_N / (n - 1),",
        "statistics/test_hsic.py",
    ),
    Bug(
        "statistics/hsic",
        "a-group-is-left-out-of-rows-alone",
        "+= 2 * trace - _products(first_part[..., inside_N], second_part[..., inside_N])",
        "+= trace",
        "statistics/test_hsic.py::test_groups_left_out_are_those_of_the_points",
    ),
    Bug(
        "core/interrupts",
        "an-import-swallows-the-interruption",
        "        interrupt(frame)",
        "        raise KeyboardInterrupt",
        "core/test_interrupted_imports.py",
    ),
)

_STORE = (
    Bug("runs/folder", "checksums-are-not-compared", "if actual != sha256:", "if not actual:", "runs/test_shards.py"),
    Bug(
        "core/atomic",
        "a-failed-write-leaves-its-part",
        "        except BaseException:\n            temporary.unlink(missing_ok=True)\n            raise",
        "        except BaseException:\n            raise",
        "runs/test_full_disk.py",
    ),
    Bug(
        "core/atomic",
        "parts-below-the-folder-stay",
        'folder.rglob(f"{PARTIAL}*")',
        'folder.glob(f"{PARTIAL}*")',
        "runs/test_folder.py",
    ),
    Bug(
        "runs/merge",
        "shorter-prompts-are-filled-with-zeros",
        'np.nan if dtype.kind == "f" else np.zeros((), dtype)',
        "np.zeros((), dtype)",
        "runs/test_merge.py",
    ),
    Bug(
        "runs/merge",
        "prompts-come-back-in-the-inverse-order",
        'np.argsort(numbers, kind="stable")',
        "np.asarray(numbers)",
        "runs/test_merge.py",
    ),
    Bug(
        "runs/merge",
        "the-last-partial-sum-is-the-sum",
        "total = total + part.values",
        "total = part.values",
        "runs/test_merge.py",
    ),
    Bug(
        "runs/shards",
        "the-hash-of-results-leaves-out-attributes",
        "list(variable.shape), variable.attrs]",
        "list(variable.shape)]",
        "runs/test_shards.py",
    ),
    Bug(
        "runs/difference",
        "weights-alone-make-a-model",
        "if compare_models(ModelIdentity.of_record(old), ModelIdentity.of_record(new)).same:",
        'if old.get("weight_hash") == new.get("weight_hash"):',
        "runs/test_manifest.py",
    ),
)

_COMPARISON = (
    Bug(
        "analysis/depths/pairing",
        "prompts-are-paired-by-their-order",
        "(index, place[name]) for index",
        "(index, index) for index",
        "analysis/depths/test_pairing.py",
    ),
    Bug(
        "analysis/depths/cohorts",
        "the-second-runs-prompts-stay-unsorted",
        "matched.second[others]]",
        "np.sort(matched.second[others])]",
        "analysis/depths/test_comparing.py",
    ),
    Bug(
        "analysis/depths/cohorts",
        "a-difference-turned-round",
        "OTHER_MINUS_REFERENCE: Final = (-1.0, 1.0)",
        "OTHER_MINUS_REFERENCE: Final = (1.0, -1.0)",
        "analysis/depths/test_comparing.py",
    ),
    Bug(
        "analysis/depths/grouping",
        "groups-are-compared-the-other-way-round",
        "_difference(reference[name], other[name], sampling)",
        "_difference(other[name], reference[name], sampling)",
        "analysis/depths/test_grouped.py",
    ),
    Bug(
        "prompts/parts",
        "levels-are-ordered-as-texts",
        "sorted(appearing, key=rank)",
        "sorted(appearing, key=str)",
        "analysis/depths/test_grouped.py::test_groups_stand_in_their_natural_order",
    ),
    Bug(
        "statistics/correction",
        "the-plainest-correction-for-holms",
        'method="holm"',
        'method="bonferroni"',
        "analysis/depths/test_comparing.py::test_every_number_is_that_of_the_statistics",
    ),
)

_OTHERS = (
    Bug(
        "prompts/prompts",
        "labels-are-not-hashed",
        '            "labels": dict(prompt.labels),\n',
        "",
        "prompts/test_prompts.py",
    ),
    Bug(
        "runs/readings",
        "the-last-block-is-not-counted",
        "place = last + 1 - (reached - share) / share_of_last",
        "place = last - (reached - share) / share_of_last",
        "runs/test_verdict.py",
    ),
    Bug(
        "runs/readings",
        "seeds-of-controls-are-certain",
        "1 + 1 / self.seeds)",
        "1 / self.seeds)",
        "runs/test_verdict.py",
    ),
    Bug(
        "runs/verdict",
        "one-end-within-a-block-is-agreement",
        "low > -CLOSE and high < CLOSE",
        "low > -CLOSE or high < CLOSE",
        "runs/test_verdict.py::test_agreement_is_read_off_the_interval_and_not_off_the_values",
    ),
)

BUGS: tuple[Bug, ...] = (*_STATISTICS, *_STORE, *_COMPARISON, *_OTHERS)
