"""Bugs in what is said with numbers: of clocks, levels, resamples, tables, equal runs and controls of other options."""

from __future__ import annotations

from bug import Bug

BUGS: tuple[Bug, ...] = (
    Bug(
        "runs/run",
        "a-run-that-ended-early-read-all-of-its-source",
        "if self.unread else source",
        "if False else source",
        "pages/head/test_answer.py::test_commands_name_the_prompts_of_a_run_that_ended_before_its_source",
    ),
    Bug(
        "surgery/exits/times",
        "too-busy-by-another-estimate-than-is-printed",
        "return bool(np.median(self.plain) < _BUSY * self.settled.forward(1))",
        "bare = self.n_blocks * self.block[:, 0] + self.rest[:, 0]\n"
        "        return bool(np.median(self.plain) < _BUSY * np.median(bare))",
        "surgery/exits/test_times.py::test_too_busy_is_judged_by_the_estimate_that_is_printed",
    ),
    Bug(
        "options",
        "one-resample-is-enough-for-an-interval",
        "Annotated[int, Range(20, 10_000_000)]",
        "Annotated[int, Range(1, 10_000_000)]",
        "surgery/choosing/test_repeats.py::test_resamples_that_tell_no_spread_are_refused",
    ),
    Bug(
        "core/text",
        "levels-are-whole-numbers",
        'return f"{100 * level:g}%"',
        'return f"{level:.0%}"',
        "core/test_text.py::test_a_level_is_written_with_all_of_its_digits",
    ),
    Bug(
        "model/constants/comparing",
        "equal-tables-differ-in-another-precision",
        "    if across_precisions:\n",
        "    if False:\n",
        "analysis/between/test_diff.py::test_tables_of_equal_numbers_in_two_precisions_do_not_differ",
    ),
    Bug(
        "model/structure",
        "a-streamed-model-has-no-structure",
        "without_values, (*IN_FRONT, LENDING)",
        "without_values, IN_FRONT",
        "surgery/choosing/test_pruning_streamed.py::test_a_streamed_model_is_pruned_to_the_end",
    ),
    Bug(
        "analysis/depths/sentences",
        "prompts-are-counted-for-a-difference-of-nothing",
        "    if row.difference == 0:\n",
        "    if row.difference == 1:\n",
        "analysis/depths/test_counts.py::test_no_number_of_prompts_is_named_for_a_difference_of_nothing",
    ),
    Bug(
        "runs/paired",
        "controls-of-other-options-are-compared",
        "        and not unlike_options(run, label)\n",
        "",
        "runs/test_paired.py::test_controls_of_other_options_are_told_and_not_compared",
    ),
    Bug(
        "surveying/engines",
        "parts-are-computed-that-no-join-could-read",
        "        require_joinable(Identity.from_mapping(plan.identity()))\n",
        "        pass\n",
        "surveying/distributed/test_joining.py::test_parts_that_no_join_could_read_are_refused_before_they_are_computed",
    ),
    Bug(
        "surgery/exits/advice",
        "settings-are-set-aside-in-silence",
        "    if others := settings_set_aside(model.hf):\n",
        "    if others := settings_set_aside(model.hf)[:0]:\n",
        "surgery/exits/test_advice.py::test_settings_that_change_greedy_decoding_are_named",
    ),
    Bug(
        "runs/stored_run",
        "controls-of-other-prompts-are-left-out-in-silence",
        "        elif read_other_prompts(run, label):\n",
        "        elif False:\n",
        "runs/test_paired.py::test_controls_of_other_prompts_are_told_and_not_compared",
    ),
    Bug(
        "surgery/choosing/stability",
        "windows-of-one-book-make-a-choice-sure",
        "return None if is_each_alone else drawn_together(",
        "return None if is_each_alone or len(np.unique(member)) < 3 else drawn_together(",
        "surgery/choosing/test_pruning.py::test_few_clusters_do_not_make_a_choice_sure",
    ),
    Bug(
        "surgery/plan/stability_text",
        "clusters-are-called-prompts",
        'label = data.attrs.get("calibration_cluster")',
        "label = None",
        "surgery/choosing/test_pruning.py::test_few_clusters_do_not_make_a_choice_sure",
    ),
    Bug(
        "analysis/depths/leading",
        "an-interval-without-0-is-written-as-0",
        "_SIGNED: Final = partial(signed, decimals=3)",
        '_SIGNED: Final = "+.3f"',
        "analysis/depths/test_leading.py::test_an_interval_without_0_is_not_written_as_0",
    ),
)
