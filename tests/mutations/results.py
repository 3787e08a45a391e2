"""Bugs in what results say of themselves, and in how estimates and missing numbers are written."""

from __future__ import annotations

from bug import Bug

BUGS: tuple[Bug, ...] = (
    Bug(
        "core/estimates",
        "one-end-is-an-interval",
        "return not (math.isnan(self.low) or math.isnan(self.high))",
        "return not math.isnan(self.low)",
        "core/test_estimates.py::test_an_estimate_is_written_with_its_interval",
    ),
    Bug(
        "core/estimates",
        "a-missing-estimate-has-its-interval",
        """        if math.isnan(self.value):
            return MISSING
        value =""",
        "        value =",
        "core/test_estimates.py::test_an_estimate_is_written_with_its_interval",
    ),
    Bug(
        "core/estimates",
        "ends-are-those-of-the-name-whatever-they-are-called",
        '(f"{ends or name}_{end}"',
        '(f"{name}_{end}"',
        "core/test_estimates.py::test_an_estimate_is_read_by_its_name_off_whatever_holds_single_numbers",
    ),
    Bug(
        "core/tables",
        "pages-change-the-signs-of-words",
        "        return legible(value)\n",
        "        return as_number(legible(value))\n",
        "core/test_tables.py::test_pages_write_minus_signs_in_numbers_and_leave_texts_as_they_are",
    ),
    Bug(
        "core/tables",
        "a-missing-whole-number-stays-that-of-pandas",
        "frame.astype(object).where(frame.notna(), None)",
        "frame.astype(object)",
        "core/test_tables.py::test_a_missing_whole_number_of_a_frame_is_a_dash",
    ),
    Bug(
        "core/tables",
        "markdown-leaves-captions-out",
        "markdown_table(table.headings, table.cells()), *captions]",
        "markdown_table(table.headings, table.cells())]",
        "core/test_tables.py::test_markdown_has_titles_and_captions_and_nothing_in_it_acts",
    ),
    Bug(
        "core/result",
        "a-result-lays-out-the-table-of-its-arrays-alone",
        "super().tables() if self.lay_out is None else self.lay_out(self.data)",
        "super().tables()",
        "core/test_result.py::test_a_labelled_result_lays_out_its_own_tables",
    ),
    Bug(
        "pages/acts/sections",
        "costs-of-a-plan-are-drawn-twice",
        "None if head else draw_result(act)",
        "draw_result(act)",
        "pages/acts/test_sections.py::test_costs_of_a_plan_are_drawn_once_on_a_page",
    ),
    Bug(
        "pages/acts/sections",
        "a-page-leaves-captions-out",
        '"caption": table.caption,',
        '"caption": (),',
        "pages/acts/test_sections.py::test_three_printers_write_the_same_cells",
    ),
    Bug(
        "cli/table_printing",
        "a-file-has-shortened-schedules",
        "if heading in table.short and sys.stdout.isatty() else cell",
        "if heading in table.short else cell",
        "cli/test_wrapping.py::test_a_file_keeps_what_a_terminal_shortens",
    ),
)
