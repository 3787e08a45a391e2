"""Bugs in what is promised: what can go and what it costs, until when prompts are surveyed, what a training pays."""

from __future__ import annotations

from bug import Bug

_TEXT = "surgery/plan/test_text.py"

BUGS: tuple[Bug, ...] = (
    Bug(
        "statistics/strata",
        "the-first-of-equal-costs-takes-every-resample",
        "(is_cheapest_XR / is_cheapest_XR.sum(axis=0)).sum(axis=1)",
        "np.bincount(means_XR.argmin(axis=0), minlength=len(values_XP))",
        "statistics/test_strata.py::test_shares_add_up_and_equal_costs_have_equal_shares",
    ),
    Bug(
        "surgery/choosing/stability",
        "copies-of-a-prompt-are-drawn-by-themselves",
        "cluster=None if is_each_alone else drawn_as_one",
        "cluster=None",
        f"{_TEXT}::test_shares_add_up_whatever_repeats",
    ),
    Bug(
        "surgery/choosing/stability",
        "one-prompt-is-sure-of-its-choice",
        "< FEWEST_DISTINCT",
        "< 1",
        f"{_TEXT}::test_shares_add_up_whatever_repeats",
    ),
    Bug(
        "surgery/plan/price",
        "what-may-be-nothing-is-told-from-0",
        "return self.low <= 0 <= self.high",
        "return self.low <= self.cost < 0",
        f"{_TEXT}::test_no_sentence_says_more_than_the_arrays",
    ),
    Bug(
        "surgery/plan/price",
        "per-cent-of-the-loss-afterwards",
        "(self.after - self.before) / self.before",
        "(self.after - self.before) / self.after",
        f"{_TEXT}::test_no_sentence_says_more_than_the_arrays",
    ),
    Bug(
        "surgery/plan/text",
        "blocks-can-go-without-a-bound",
        "        if within:\n",
        "        if True:\n",
        f"{_TEXT}::test_no_sentence_says_more_than_the_arrays",
    ),
    Bug(
        "surgery/plan/text",
        "candidates-that-stay-below-the-bound-are-passed-over",
        "name != RANDOM and over[place] < 0",
        "name != RANDOM and over[place] < -limit",
        f"{_TEXT}::test_no_sentence_says_more_than_the_arrays",
    ),
    Bug(
        "surgery/scheduled/speed",
        "two-figures-for-one-speed",
        "return self.after / self.before",
        "return (self.ratio_min + self.ratio_max) / 2",
        "pages/acts/test_plan_head.py::test_the_page_has_one_figure_for_speed",
    ),
    Bug(
        "surveying/engines",
        "nobody-is-told-whether-the-width-was-reached",
        'return replace(run, manifest=with_note(folder, "until", ending.record()))',
        "return run",
        "surveying/test_until.py::test_the_budget_ends_it_between_batches",
    ),
    Bug(
        "surveying/until",
        "a-width-that-was-missed-is-rounded-to-one-that-was-not",
        "ceil(10**digits * self.reach)",
        "round(self.reach, 1)",
        "surveying/test_until.py::test_the_sentence_says_whether_the_width_was_reached",
    ),
    Bug(
        "surveying/training/budget",
        "the-first-survey-is-free",
        "2 * self.seconds * (1 / self.share - 1)",
        "self.seconds * (1 / self.share - 1)",
        "surveying/training/test_callback.py::test_what_is_said_before_the_first_step_holds",
    ),
    Bug(
        "surveying/advancing",
        "readouts-take-no-time",
        '"readouts": weights.readouts * read,',
        '"readouts": 0.0,',
        "surveying/test_advancing.py::test_more_readouts_than_were_planned_do_not_run_ahead",
    ),
    Bug(
        "surgery/order/chain",
        "a-second-stream-is-led-nowhere",
        "if arguments.get(_SECOND_STREAM) is not None:",
        "if False:",
        "surgery/scheduled/test_running.py::test_a_second_stream_is_refused_and_the_export_generates",
    ),
    Bug(
        "surveying/training/gathering",
        "weights-of-an-earlier-step-are-gathered",
        "module.reshard()",
        "pass",
        "surveying/training/test_sharded.py::test_a_loop_with_scattered_weights_is_watched_and_stays_as_it_is",
    ),
    Bug(
        "surveying/training/gathering",
        "a-sharded-model-keeps-the-classes-of-its-copy",
        """        for module, kind in classes:
            module.__class__ = kind
""",
        "        pass",
        "surveying/training/test_sharded.py::test_a_loop_with_scattered_weights_is_watched_and_stays_as_it_is",
    ),
    Bug(
        "surveying/training/watch",
        "one-process-refuses-alone",
        "fault = fault if self._gathering is None else self._gathering.agreed(fault)",
        "pass",
        "surveying/training/test_sharded.py::test_what_the_first_process_refuses_all_of_them_refuse",
    ),
    Bug(
        "options",
        "an-array-is-compared-with-each-choice",
        "return value in frozenset(allowed)",
        "return value in allowed",
        "test_options.py::test_what_is_no_choice_is_refused_in_a_sentence_whatever_its_type",
    ),
    Bug(
        "options",
        "bytes-are-read-as-a-number",
        "isinstance(value, bool | str | bytes | bytearray)",
        "isinstance(value, bool | str)",
        "test_options.py::test_what_is_no_number_is_refused_in_a_sentence_whatever_its_type",
    ),
    Bug(
        "surgery/trial/domains",
        "a-domain-without-a-name-passes",
        "if not isinstance(name, str) or not name:",
        "if name is not None and not isinstance(name, str):",
        "surgery/trial/test_domains.py::test_a_part_or_a_domain_that_is_none_is_refused_as_any_other_that_is_unknown",
    ),
    Bug(
        "model/checking",
        "a-precision-is-ignored-where-the-model-is-loaded",
        '"dtype": dtype,',
        '"dtype": None,',
        "model/test_loading.py::test_how_to_load_is_refused_of_a_model_that_is_loaded_already",
    ),
    Bug(
        "prompts/prompt",
        "bytes-are-token-ids",
        "isinstance(items, str | bytes | bytearray | Mapping | Set)",
        "isinstance(items, str | Mapping | Set)",
        "prompts/test_prompt.py::test_token_ids_are_no_bytes_texts_or_collections_without_an_order",
    ),
)
