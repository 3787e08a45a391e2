"""Bugs in what a plan states of domains, and in models that are run, exported or compared though they are others."""

from __future__ import annotations

from bug import Bug

COMBINING = "surgery/plan/test_combining.py"

BUGS: tuple[Bug, ...] = (
    Bug(
        "surgery/plan/combining",
        "losses-of-domains-are-pooled",
        "return cls(joint, domain, strata.weights(cost_XP)[0],",
        "return cls(joint, domain, np.full(len(names), 1 / len(names)),",
        f"{COMBINING}::test_the_losses_of_a_sentence_differ_by_its_cost",
    ),
    Bug(
        "surgery/choosing/judging",
        "changed-predictions-of-domains-are-pooled",
        'self._combine(detailed["agreement"][first_rows], cost)',
        'detailed["agreement"][first_rows].mean(axis=1)',
        "surgery/trial/test_domains.py::test_a_joint_choice_counts_domains_alike",
    ),
    Bug(
        "surgery/plan/plan",
        "a-record-of-a-plan-has-a-conclusion-of-its-own",
        "            conclusion=self.text,\n",
        "            conclusion=self.text.partition('. ')[0],\n",
        "pages/acts/test_sections.py::test_whoever_shows_a_result_shows_its_sentences",
    ),
    Bug(
        "pages/acts/sections",
        "a-page-says-the-heading-twice-and-no-sentence",
        '"text": act.text,',
        '"text": act.heading,',
        "pages/acts/test_sections.py::test_whoever_shows_a_result_shows_its_sentences",
    ),
    Bug(
        "surgery/plan/price",
        "an-older-plan-states-changes-of-other-prompts",
        "if combining.counts_rates else math.nan",
        "if True else math.nan",
        f"{COMBINING}::test_what_is_unknown_of_an_older_plan_is_not_said",
    ),
    Bug(
        "surgery/order/chain",
        "a-cache-that-is-not-asked-for-is-filled-wrongly",
        '        return {**arguments, "use_cache": False}\n',
        "        return arguments\n",
        "surgery/scheduled/test_verification.py::test_no_forward_fills_a_cache_that_blocks_of_other_numbers_share",
    ),
    Bug(
        "model/constants/tables",
        "rounded-tables-are-exported-in-silence",
        "    return {name: share for name, share in shares.items() if share > 0}\n",
        "    return {}\n",
        "surgery/checkpoint/test_tables.py::test_an_export_says_which_tables_were_rounded_in_memory",
    ),
    Bug(
        "surgery/checkpoint/folder",
        "a-registered-attention-is-exported",
        "    require_library_attention(source)\n    whole",
        "    whole",
        "surgery/checkpoint/test_attention_functions.py::test_every_way_to_a_checkpoint_names_the_function",
    ),
    Bug(
        "surgery/checkpoint/proof",
        "outlines-attend-by-different-functions",
        "    rewritten._attn_implementation = config._attn_implementation\n",
        "",
        "surgery/checkpoint/test_attention_functions.py::test_another_order_in_memory_attends_by_the_same_function",
    ),
    Bug(
        "schedule",
        "a-block-that-does-not-run-is-repeated-in-silence",
        '        if idle is not None:\n            raise OptionError(\n                f"repeat:',
        '        if idle is not None and False:\n            raise OptionError(\n                f"repeat:',
        "test_schedule.py::test_what_names_a_block_that_does_not_run_is_refused_by_all_alike",
    ),
    Bug(
        "runs/paired",
        "a-control-is-what-its-folder-is-called",
        "        and not contradiction(run, label)\n",
        "",
        "runs/test_paired.py::test_a_renamed_control_and_a_copied_run_are_told",
    ),
    Bug(
        "runs/run",
        "a-part-keeps-the-sentence-of-the-whole",
        "stored = None if self.cut else (",
        "stored = (",
        "surveying/test_until.py::test_a_part_says_nothing_of_the_whole",
    ),
    Bug(
        "runs/selecting",
        "a-range-counts-places-where-a-number-is-an-id",
        "elif _has_ids_of_other_places(numbers, prompts.names):",
        "elif False:",
        "runs/test_selecting.py::test_a_number_means_the_same_alone_and_in_a_range",
    ),
    Bug(
        "surgery/checkpoint/folder",
        "a-model-that-fails-itself-is-exported",
        "    require_running(source)\n",
        "",
        "surgery/checkpoint/test_in_memory.py::test_a_model_that_fails_itself_is_refused_with_its_reason",
    ),
    Bug(
        "surgery/checkpoint/in_memory",
        "weights-of-another-precision-are-loaded-in-silence",
        "and weight.dtype != dtype\n",
        "and weight.dtype == torch.float64 != dtype\n",
        "surgery/checkpoint/test_in_memory.py::test_a_copy_loads_as_most_weights_are_and_says_which_are_not",
    ),
    Bug(
        "surveying/distributed/joining",
        "a-control-has-to-be-in-every-folder",
        "return [place for place in places if place.is_dir()]",
        "return places",
        "surveying/distributed/test_joining.py::test_parts_without_a_control_that_others_have_are_named",
    ),
    Bug(
        "surveying/training/course",
        "every-step-warns-of-the-same-prompts",
        "with leaving_out(remarks):",
        "with leaving_out(frozenset()):",
        "core/test_repeated.py::test_every_step_reads_the_same_prompts_and_says_so_once",
    ),
)
