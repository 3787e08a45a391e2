"""Bugs in what is made of results: statistics, store, comparison and verdict."""

from __future__ import annotations

from functools import partial

from bug import Bug

_statistics, _store, _comparison = (partial(Bug, room) for room in ("statistics", "store", "comparison"))
_prompts, _top = partial(Bug, "prompts"), partial(Bug, "")

_STATISTICS = (
    _statistics(
        "bootstrap",
        "resamples-with-the-populations-deviation",
        "found.std(ddof=1)",
        "found.std()",
        "statistics/test_bootstrap.py",
    ),
    _statistics(
        "crossing",
        "a-cosine-of-zero-is-no-crossing",
        "(curve[..., 1:] >= 0)",
        "(curve[..., 1:] > 0)",
        "statistics/test_crossing.py",
    ),
    _statistics(
        "crossing",
        "the-threshold-itself-counts",
        "(curve[..., :-1] < 0) & _is_finite(curve)\n    index",
        "(curve[..., :-1] <= 0) & _is_finite(curve)\n    index",
        "statistics/test_crossing.py",
    ),
    _statistics(
        "effective_depth",
        "intervals-end-a-block-early",
        "weights, limits=(0.0, last), curve=name",
        "weights, limits=(0.0, last - 1), curve=name",
        "comparison/test_readings.py",
    ),
    _statistics(
        "effective_depth",
        "ratios-are-cut-below-the-last-block",
        "((limit + self.offset) / n_blocks for limit in self.limits)",
        "(limit / n_blocks for limit in self.limits)",
        "comparison/test_readings.py",
    ),
    _statistics(
        "effective_depth",
        "the-effect-weighs-by-tokens",
        "layer_effect(effect),\n        np.ones(len(curves.n_tokens)),",
        "layer_effect(effect),\n        curves.n_tokens,",
        "statistics/test_effective_depth.py",
    ),
    _statistics(
        "reduce",
        "missing-values-count-as-zero",
        "mass = weights @ (~np.isnan(flat)).astype(np.float64)",
        "mass = weights.sum(axis=-1, keepdims=True)",
        "statistics/test_reduce.py",
    ),
    _statistics(
        "difference",
        "a-paired-difference-of-the-wrong-sign",
        "[[Term(first, -1.0), Term(second, 1.0)]]",
        "[[Term(first, 1.0), Term(second, -1.0)]]",
        "statistics/test_difference.py",
    ),
    _statistics(
        "permutation",
        "a-dealing-without-an-estimate-is-no-difference",
        "nan=np.inf",
        "nan=0.0",
        "statistics/test_permutation.py",
    ),
    _statistics(
        "trend",
        "one-degree-of-freedom-for-all-levels",
        "/ (y.size - levels.size))",
        "/ (y.size - 1))",
        "statistics/test_trend.py",
    ),
    _statistics(
        "stages",
        "held-out-prompts-choose-their-own-breaks",
        "Curves(curves.by_prompt[~held], curves.fixed)",
        "Curves(curves.by_prompt, curves.fixed)",
        "statistics/test_stages.py",
    ),
    _statistics(
        "influence",
        "the-skipped-block-depends-on-itself",
        "dtype=bool), 1)",
        "dtype=bool), 0)",
        "statistics/test_influence.py",
    ),
    _statistics(
        "moments",
        "pieces-merge-with-a-wrong-fourth-power",
        "(n * n - n * m + m * m)",
        "(n * n + n * m + m * m)",
        "statistics/test_moments.py",
    ),
    _statistics(
        "stages",
        "the-upper-end-is-rounded-inwards",
        'above, method="higher")',
        'above, method="lower")',
        "statistics/test_stages.py",
    ),
    _statistics(
        "hsic",
        "row-means-with-the-diagonal",
        "hollow.sum(-1, keepdims=True) / (n - 2)",
        "hollow.sum(-1, keepdims=True) / (n - 1)",
        "statistics/test_hsic.py",
    ),
    _statistics(
        "change_point",
        "the-embedding-has-a-say-in-the-break",
        "FIRST: Final = 1\n",
        "FIRST: Final = 0\n",
        "statistics/test_change_point.py",
    ),
)

_STORE = (
    _store("folder", "checksums-are-not-compared", "if found != sha256:", "if not found:", "store/test_shards.py"),
    _store(
        "atomic",
        "a-failed-write-leaves-its-part",
        "        except BaseException:\n            temporary.unlink(missing_ok=True)\n            raise",
        "        except BaseException:\n            raise",
        "store/test_full_disk.py",
    ),
    _store(
        "atomic",
        "parts-below-the-folder-stay",
        'folder.rglob(f"{PARTIAL}*")',
        'folder.glob(f"{PARTIAL}*")',
        "store/test_folder.py",
    ),
    _store(
        "merge",
        "shorter-prompts-are-filled-with-zeros",
        'np.nan if dtype.kind == "f" else np.zeros((), dtype)',
        "np.zeros((), dtype)",
        "store/test_merge.py",
    ),
    _store(
        "merge",
        "prompts-come-back-in-the-inverse-order",
        'np.argsort(numbers, kind="stable")',
        "np.asarray(numbers)",
        "store/test_merge.py",
    ),
    _store(
        "merge",
        "the-last-partial-sum-is-the-sum",
        "total = total + part.values",
        "total = part.values",
        "store/test_merge.py",
    ),
    _store(
        "shards",
        "the-hash-of-results-leaves-out-attributes",
        "list(variable.shape), variable.attrs]",
        "list(variable.shape)]",
        "store/test_shards.py",
    ),
    _store(
        "difference",
        "weights-alone-make-a-model",
        'for name in ("weight_hash", "config_hash"))',
        'for name in ("weight_hash",))',
        "store/test_manifest.py",
    ),
)

_COMPARISON = (
    _comparison(
        "pairing",
        "prompts-are-paired-by-their-order",
        "[np.array([where[name] for name in shared], dtype=np.intp) for where in place]",
        "[np.arange(len(shared), dtype=np.intp) for _ in place]",
        "comparison/test_pairing.py",
    ),
    _comparison(
        "comparing",
        "the-second-runs-prompts-stay-unsorted",
        "found.second[others]]",
        "np.sort(found.second[others])]",
        "comparison/test_comparing.py",
    ),
    _comparison(
        "questions",
        "a-difference-turned-round",
        "(reference, other), (-1.0, 1.0))",
        "(reference, other), (1.0, -1.0))",
        "comparison/test_comparing.py",
    ),
    _comparison(
        "grouping",
        "groups-are-compared-the-other-way-round",
        "difference(row[a], row[b])",
        "difference(row[b], row[a])",
        "comparison/test_grouped.py",
    ),
    _prompts(
        "parts",
        "levels-are-ordered-as-texts",
        "sorted(appearing, key=rank)",
        "sorted(appearing, key=str)",
        "comparison/test_grouped.py::test_groups_stand_in_their_natural_order",
    ),
    _comparison(
        "result",
        "the-plainest-correction-for-holms",
        'method="holm"',
        'method="bonferroni"',
        "comparison/test_comparing.py::test_every_number_is_that_of_the_statistics",
    ),
)

_OTHERS = (
    _prompts(
        "prompts",
        "labels-are-not-hashed",
        '            "labels": dict(prompt.labels),\n',
        "",
        "prompts/test_prompts.py",
    ),
    _top(
        "verdict",
        "the-last-block-is-not-counted",
        "place = last + 1 - (reached - share) / own",
        "place = last - (reached - share) / own",
        "test_verdict.py",
    ),
    _top("verdict", "seeds-of-controls-are-certain", "1 + 1 / self.seeds)", "1 / self.seeds)", "test_verdict.py"),
    _top(
        "verdict",
        "readings-a-block-apart-disagree",
        "self.readable.value - self.own.value) <= CLOSE",
        "self.readable.value - self.own.value) < CLOSE",
        "test_verdict.py",
    ),
)

BUGS: tuple[Bug, ...] = (*_STATISTICS, *_STORE, *_COMPARISON, *_OTHERS)
