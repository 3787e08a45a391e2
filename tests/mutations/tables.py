"""What no checkpoint and no course can hold: changed tables, other depths, shared blocks, settings without modules."""

from __future__ import annotations

from bug import Bug

BUGS: tuple[Bug, ...] = (
    Bug(
        "surgery/checkpoint/folder",
        "a-changed-table-is-exported-as-it-was",
        ", *changed_tables(hf)]",
        "]",
        "surgery/checkpoint/test_tables.py::test_every_way_to_write_a_schedule_refuses_a_changed_table",
    ),
    Bug(
        "model/constants",
        "rounded-tables-are-refused",
        "for dtype in (table.dtype, *casts, value.dtype):",
        "for dtype in (table.dtype, value.dtype):",
        "surgery/checkpoint/test_tables.py::test_casts_of_a_model_leave_its_tables_and_factors_do_not",
    ),
)
