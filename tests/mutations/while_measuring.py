"""Bugs in what meets the model: anatomy, wavefront and measures."""

from __future__ import annotations

from functools import partial

from bug import Bug

_wavefront, _measures, _anatomy = (partial(Bug, room) for room in ("wavefront", "measures", "anatomy"))

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
        "replace",
        "the-replaced-token-counts-from-the-rows-own-start",
        "torch.arange(start, replay.tokens, ",
        "torch.arange(0, replay.tokens - start, ",
        "wavefront/test_replace.py::test_however_little_room_there_is_the_numbers_are_the_same",
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
        "over_tokens",
        "the-left-out-first-token-still-divides",
        "return total / keep.sum(-1)",
        "return total / batch.valid_BT.sum(-1)",
        "measures/test_over_tokens.py",
    ),
    _measures(
        "over_tokens",
        "the-quantile-does-not-interpolate",
        "high = (low + 1).clamp_max(last)",
        "high = low.clamp_max(last)",
        "measures/test_over_tokens.py",
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
        "    reset_rotary(model)\n",
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

BUGS: tuple[Bug, ...] = (*_WAVEFRONT, *_MEASURES, *_ANATOMY)
