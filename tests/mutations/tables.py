"""What no checkpoint and no course can hold: changed tables, other depths, shared blocks, settings without modules."""

from __future__ import annotations

from bug import Bug

BUGS: tuple[Bug, ...] = (
    Bug(
        "surgery/checkpoint/exportable",
        "a-changed-table-is-exported-as-it-was",
        ", *changed_tables(hf)]",
        "]",
        "surgery/checkpoint/test_tables.py::test_every_way_to_write_a_schedule_refuses_a_changed_table",
    ),
    Bug(
        "model/constants/tables",
        "rounded-tables-are-refused",
        "for dtype in (table.dtype, *casts, value.dtype):",
        "for dtype in (table.dtype, value.dtype):",
        "surgery/checkpoint/test_tables.py::test_casts_of_a_model_leave_its_tables_and_factors_do_not",
    ),
    Bug(
        "surveying/training/watch",
        "a-watch-surveys-models-of-another-depth",
        "raise _MisfitError(differs)",
        "pass",
        "surveying/training/test_course.py::test_a_watch_leaves_out_steps_of_another_depth_and_says_so_once",
    ),
    Bug(
        "surveying/training/steps",
        "steps-of-another-depth-are-left-out-in-silence",
        "    if others:\n        steps =",
        "    if not same_depth:\n        steps =",
        "surveying/training/test_course.py::test_steps_of_another_depth_are_left_out_of_a_course_that_is_opened",
    ),
    Bug(
        "analysis/between/weights",
        "a-block-in-two-places-has-one-name",
        "modules = model.hf.named_modules(remove_duplicate=False)\n    return tuple",
        "modules = model.hf.named_modules()\n    return tuple",
        "analysis/between/test_diff_places.py::"
        "test_a_block_that_stands_in_two_places_differs_from_the_one_that_it_replaces",
    ),
    Bug(
        "surveying/untrained",
        "a-control-follows-the-configuration-alone",
        "fresh = _initialise_copy(hf) if departure_in_words(hf) else _build(hf)",
        "fresh = _build(hf)",
        "surveying/test_untrained.py::test_what_is_said_in_a_configuration_alone_is_in_no_control",
    ),
)
