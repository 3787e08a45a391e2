"""Small bugs that the tests must notice: each changes one place, as a slip of the hand would."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial


@dataclass(frozen=True)
class Bug:
    """One slip.

    Args:
        room: folder of the package that holds the file; "" = its top.
        file: name of the file without its ending.
        name: what goes wrong, in a few words joined by hyphens.
        right: text of the file that occurs once.
        wrong: what stands there instead.
        test: a file below ``tests``, or a test in one, that fails.
    """

    room: str
    file: str
    name: str
    right: str
    wrong: str
    test: str

    @property
    def path(self) -> str:
        """The file, from the root of the checkout."""
        return "/".join(part for part in ("src/bathyscope", self.room, f"{self.file}.py") if part)

    @property
    def named(self) -> str:
        """The test, from the root of the checkout."""
        return f"tests/{self.test}"

    def put_into(self, text: str) -> str:
        """The file's text with the bug in it.

        Raises:
            ValueError: the right text does not occur exactly once; the table must follow the code.
        """
        if text.count(self.right) != 1:
            raise ValueError(f"{self.name}: {self.right!r} occurs {text.count(self.right)} times in {self.path}")
        return text.replace(self.right, self.wrong)


_wavefront, _measures, _statistics = (partial(Bug, room) for room in ("wavefront", "measures", "statistics"))
_store, _anatomy, _comparison = (partial(Bug, room) for room in ("store", "anatomy", "comparison"))
_prompts, _top = partial(Bug, "prompts"), partial(Bug, "")

_WAVEFRONT = (
    _wavefront(
        "batch",
        "pads-are-taken-for-tokens",
        "[None] < lengths[:, None]",
        "[None] <= lengths[:, None]",
        "wavefront/test_batch.py",
    ),
    _wavefront(
        "batch",
        "only-the-longest-prompt-has-a-last-token",
        "following[torch.arange(self.size, device=last.device), last] = -1",
        "following[last.argmax(), last.max()] = -1",
        "wavefront/test_batch.py",
    ),
    _wavefront(
        "batch",
        "a-skip-reaches-one-token-too-far",
        "(position < torch.tensor(before",
        "(position <= torch.tensor(before",
        "wavefront/test_batch.py",
    ),
    _wavefront(
        "compare",
        "divergence-weighted-by-the-other-side",
        ".mul_(self.row.p)",
        ".mul_(self.ref.p)",
        "wavefront/test_compare.py",
    ),
    _wavefront(
        "compare",
        "the-token-that-reaches-the-share-is-left-out",
        "values.cumsum(-1) - values < share",
        "values.cumsum(-1) < share",
        "wavefront/test_compare.py",
    ),
    _wavefront(
        "slots",
        "the-control-lends-to-every-tail",
        "[self.donors[tail] for tail in tails]",
        "[self.donors[0] for _ in tails]",
        "wavefront/test_slots.py",
    ),
    _wavefront(
        "full",
        "protected-tokens-lag-a-block-behind",
        "self._heads[birth.boundary + runner.done]",
        "self._heads[birth.boundary + runner.done - 1]",
        "wavefront/test_engine.py::test_protected_tokens_keep_the_standard_stream_at_every_slot",
    ),
    _wavefront(
        "plan",
        "protected-tokens-are-forgotten",
        "Birth(prefix, protect=request.protect)",
        "Birth(prefix)",
        "wavefront/test_plan.py",
    ),
    _wavefront(
        "tail",
        "tails-begin-a-block-late",
        "].block < boundary:",
        "].block < boundary - 1:",
        "wavefront/test_engine.py::test_tails_and_full_rows_show_the_same",
    ),
    _wavefront(
        "erase",
        "the-erased-token-counts-from-the-rows-own-start",
        "own = each + (self.tokens.start - self.start)",
        "own = each",
        "wavefront/test_erase.py::test_however_little_room_there_is_the_numbers_are_the_same",
    ),
    _wavefront(
        "direct",
        "one-donor-for-all-direct-tails",
        "(slot_of[r.donor] for r in born)",
        "(slot_of[born[0].donor] for r in born)",
        "measures/test_direct.py::test_tails_and_full_rows_agree",
    ),
)

_MEASURES = (
    _measures(
        "effects", "the-noise-floor-is-the-quietest-token", "0.0).amax(-1)", "0.0).amin(-1)", "measures/test_effects.py"
    ),
    _measures(
        "effects",
        "the-last-call-alone-has-noise",
        "torch.maximum(self.noise[view.prompt], gap.max().double())",
        "gap.max().double()",
        "measures/test_effects.py",
    ),
    _measures("skip", "noise-of-the-output-is-a-mean", "reduced[2, -1]", "reduced[0, -1]", "measures/test_skip.py"),
    _measures(
        "skip",
        "an-unprotected-first-token-loses-nothing",
        "gone_BT[:, : self._options.protect_first] = 0",
        "gone_BT[:, :1] = 0",
        "measures/test_skip.py::test_the_skipped_block_loses_its_whole_contribution",
    ),
    _measures(
        "positions",
        "positions-reach-into-the-margin",
        "range(STEP, length - MARGIN, STEP)",
        "range(STEP, length - MARGIN + 1, STEP)",
        "measures/test_positions.py",
    ),
    _measures(
        "settling",
        "settled-only-below-half-a-bit",
        "jsd_BN <= SETTLED",
        "jsd_BN < SETTLED",
        "measures/test_settling.py",
    ),
    _measures(
        "settling",
        "the-deep-share-is-rounded-down",
        "-(-_DEEP_PERCENT * n_blocks // 100)",
        "_DEEP_PERCENT * n_blocks // 100",
        "measures/test_settling.py",
    ),
    _measures(
        "tokens",
        "the-left-out-first-token-still-divides",
        "return total / keep.sum(-1)",
        "return total / batch.valid_BT.sum(-1)",
        "measures/test_tokens.py",
    ),
    _measures(
        "tokens",
        "the-quantile-does-not-interpolate",
        "high = (low + 1).clamp_max(last)",
        "high = low.clamp_max(last)",
        "measures/test_tokens.py",
    ),
    _measures(
        "erasure",
        "a-reference-mean-over-tokens-it-left-out",
        "tokens = sum(n - first for n in lengths)",
        "tokens = sum(lengths)",
        "measures/test_erasure.py::test_the_reference_is_a_mean_over_tokens",
    ),
    _measures(
        "lens",
        "the-answers-own-positions-for-those-that-predict-it",
        "slice(-1 - answer_tokens, -1)",
        "slice(-answer_tokens, None)",
        "measures/test_lens.py::test_answer_positions_predict_the_answer",
    ),
    _measures(
        "lens",
        "the-frozen-norm-is-recomputed",
        '"frozen": frozen}',
        '"frozen": None}',
        "measures/test_lens.py::test_the_frozen_norm_divides_by_the_last_boundarys_scale",
    ),
    _measures(
        "residual",
        "the-mlp-beside-the-blocks-input",
        "before if self._facts.anatomy.parallel else before + attention",
        "before",
        "measures/test_parity.py::test_residual_contributions",
    ),
    _measures(
        "curves",
        "the-lens-weighs-by-all-tokens",
        "n_lens=token_weights(lens)",
        "n_lens=token_weights(residual)",
        "measures/test_lens.py::test_answers_weigh_by_their_own_tokens",
    ),
    _measures(
        "attention_locality",
        "the-first-query-counts-for-the-first-key",
        "self._first_key / (lengths - 1)",
        "self._first_key / lengths",
        "measures/test_attention_locality.py::test_parity_with_the_weights_of_the_model",
    ),
    _measures(
        "depth_score",
        "a-position-with-nothing-to-skip-before-it",
        "if first + k > PROTECT_FIRST",
        "if first + k >= PROTECT_FIRST",
        "measures/test_depth_score.py::test_one_position_needs_a_token_to_skip",
    ),
    _measures(
        "schedules",
        "the-last-token-is-counted-as-averaged",
        "np.array(self._batch.lengths, dtype=np.int64) - 1",
        "np.array(self._batch.lengths, dtype=np.int64)",
        "measures/test_schedules.py::test_published_positions",
    ),
    _measures(
        "cka",
        "a-degree-of-freedom-too-many",
        "max(len(m.groups(kind)) - 1, 0)",
        "len(m.groups(kind))",
        "measures/test_cka.py::test_a_model_beside_itself_is_the_measure",
    ),
    _measures(
        "depth_score",
        "the-first-effect-is-taken-for-noise",
        "self._note_noise(tail.prompt, change[-1])",
        "self._note_noise(tail.prompt, change[0])",
        "measures/test_datasets.py::test_the_noise_of_a_dense_model_in_full_precision_is_zero",
    ),
    _measures(
        "neurons",
        "fractions-of-the-widest-block",
        "(kurtotic & signed).sum(1) / neurons",
        "(kurtotic & signed).sum(1) / width",
        "measures/test_neurons.py",
    ),
    _measures(
        "swap_cosine",
        "protected-tokens-are-counted-as-averaged",
        "counts = np.array(self._batch.lengths, dtype=np.int64) - self._first",
        "counts = np.array(self._batch.lengths, dtype=np.int64)",
        "measures/test_swap_cosine.py::test_protected_tokens_keep_the_real_stream_and_enter_no_mean",
    ),
)

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
        "estimate",
        "intervals-end-a-block-early",
        "limits=(0.0, float(scale.last))",
        "limits=(0.0, float(scale.last - 1))",
        "statistics/test_effective_depth.py",
    ),
    _statistics(
        "effective_depth",
        "the-effect-weighs-by-tokens",
        "_effects(curves), ones,",
        "_effects(curves), curves.n_tokens,",
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
        "(index[:, None] < np.arange(n_blocks))",
        "(index[:, None] <= np.arange(n_blocks))",
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
        'np.argsort(prompts, kind="stable")',
        "np.asarray(prompts)",
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

_ANATOMY = (
    _anatomy(
        "gaps",
        "the-mean-tokens-gap-for-the-largest",
        "float(token_gaps(found, wanted).max())",
        "float(token_gaps(found, wanted).mean())",
        "anatomy/test_gaps.py",
    ),
    _anatomy(
        "recording",
        "rotary-tables-remember-longer-prompts",
        "    _reset_rotary(model)\n",
        "",
        "anatomy/test_recording.py::test_a_prompt_is_recorded_as_if_no_longer_one_had_been",
    ),
    _anatomy(
        "readout",
        "a-softcap-that-only-squashes",
        "torch.tanh(logits_NV / self.softcap) * self.softcap",
        "torch.tanh(logits_NV / self.softcap)",
        "anatomy/test_readout.py::test_what_families_do_to_logits",
    ),
    _anatomy(
        "readout",
        "the-lens-skips-the-norm",
        "return self.logits(resid_ND if self.norm is None else self.norm(resid_ND))",
        "return self.logits(resid_ND)",
        "anatomy/test_readout.py::test_the_frozen_norm_at_its_own_boundary_is_the_norm",
    ),
    _anatomy(
        "arguments",
        "every-row-gets-the-first-prompts-arguments",
        "if shared or batch == 1:",
        "if shared or batch >= 1:",
        "anatomy/test_arguments.py",
    ),
    _anatomy(
        "arguments",
        "a-tail-asks-with-the-first-tokens",
        "value.narrow(axes.query, start, ",
        "value.narrow(axes.query, 0, ",
        "anatomy/test_arguments.py",
    ),
    _anatomy(
        "replay",
        "a-tails-query-does-not-see-itself",
        "full[start:][None, None]",
        "full[start - 1 : -1][None, None]",
        "anatomy/test_tail_check.py",
    ),
    _anatomy(
        "sites",
        "a-contribution-without-its-scale",
        "value.clone() if site.scale is None else value * getattr(block, site.scale)",
        "value.clone()",
        "anatomy/test_sites.py",
    ),
    _anatomy(
        "lengths",
        "dynamic-tables-share-batches-of-any-length",
        '("longrope", "dynamic")',
        '("longrope",)',
        "anatomy/test_lengths.py",
    ),
    _anatomy(
        "attention",
        "a-query-does-not-see-itself",
        "key > query[first:stop, None]",
        "key >= query[first:stop, None]",
        "anatomy/test_attention.py",
    ),
    _anatomy(
        "cache",
        "keys-stand-in-for-the-lent-values",
        "torch.cat([self._prefix_values[",
        "torch.cat([self._prefix_keys[",
        "anatomy/test_cache.py",
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
    _comparison(
        "readings",
        "ratios-are-cut-below-the-last-block",
        "(one.last + one.offset) / n_blocks)",
        "one.last / n_blocks)",
        "comparison/test_readings.py",
    ),
    _comparison(
        "groups",
        "levels-are-ordered-as-texts",
        "levels.sort(key=rank)",
        "levels.sort(key=str)",
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
        "hash", "labels-are-not-hashed", '            "labels": dict(prompt.labels),\n', "", "prompts/test_hash.py"
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

BUGS: tuple[Bug, ...] = (*_WAVEFRONT, *_MEASURES, *_STATISTICS, *_STORE, *_ANATOMY, *_COMPARISON, *_OTHERS)
