"""Bugs in what guards against files and words of others: each lets in one thing that somebody prepared once."""

from __future__ import annotations

from typing import Final

from bug import Bug

_FILES: Final = "test_hostile_files.py"

BUGS: tuple[Bug, ...] = (
    Bug(
        "model/files",
        "an-export-copies-what-a-link-leads-to",
        "require_regular(file, folder, MOST_TEXT if suffix in _TEXTS else MOST)",
        "require_regular(file, None, MOST_TEXT if suffix in _TEXTS else MOST)",
        f"{_FILES}::test_an_export_publishes_no_file_that_a_link_leads_to",
    ),
    Bug(
        "core/foreign",
        "a-link-out-of-the-folder-is-followed",
        "    if place.is_relative_to(root) or _is_blob(place, folder):\n        return\n",
        "    if True:\n        return\n",
        f"{_FILES}::test_nothing_of_a_linked_file_is_said",
    ),
    Bug(
        "core/foreign",
        "what-lies-in-the-folder-is-no-link",
        "        return not stat.S_ISLNK(os.lstat(path).st_mode)",
        "        return os.lstat(path) is not None",
        f"{_FILES}::test_nothing_of_a_linked_file_is_said",
    ),
    Bug(
        "model/configuration",
        "a-rotary-base-is-any-number",
        "if isinstance(base, int | float) and not 0 < base < math.inf:",
        "if isinstance(base, int | float) and base != base and False:",
        f"{_FILES}::test_a_configuration_names_no_code_and_no_millions_of_labels",
    ),
    Bug(
        "core/foreign",
        "a-pipe-is-a-file",
        "    if stat.S_ISREG(mode):",
        "    if stat.S_ISREG(mode) or stat.S_ISFIFO(mode):",
        f"{_FILES}::test_a_pipe_in_place_of_a_file_is_refused_without_waiting",
    ),
    Bug(
        "measures/jacobian/files",
        "a-matrix-is-as-large-as-it-says",
        "and matrix.is_contiguous()\n"
        "        and matrix.untyped_storage().nbytes() >= matrix.numel() * matrix.element_size() > 0",
        "and matrix.numel() > 0",
        f"{_FILES}::test_a_lens_that_no_fit_wrote_is_refused",
    ),
    Bug(
        "measures/jacobian/files",
        "a-boundary-may-stand-twice",
        "if list(boundaries) != sorted({*boundaries}):",
        "if list(boundaries) != sorted(boundaries):",
        f"{_FILES}::test_a_lens_that_no_fit_wrote_is_refused",
    ),
    Bug(
        "pages/papers/json_record",
        "the-target-of-a-record-is-looked-up-whatever-it-is",
        "if not isinstance(target, str) or target not in REPRODUCTIONS or not whole:",
        "if target not in REPRODUCTIONS or not whole:",
        f"{_FILES}::test_a_record_of_no_target_is_refused",
    ),
    Bug(
        "runs/run",
        "a-name-acts-in-what-python-shows-of-a-run",
        "return legible(f\"<Run {headline}{self.caption()} Measures: {', '.join(self.measures)}. {self._place}>\")",
        "return f\"<Run {headline}{self.caption()} Measures: {', '.join(self.measures)}. {self._place}>\"",
        f"{_FILES}::test_nothing_acts_in_what_python_shows_of_a_run_and_its_prompts",
    ),
    Bug(
        "model/model",
        "a-name-acts-in-what-python-shows-of-a-model",
        'return legible(f"Model({self._shown_name}, {self.anatomy.family.name}, {shape}, {weights})")',
        'return f"Model({self._shown_name}, {self.anatomy.family.name}, {shape}, {weights})"',
        f"{_FILES}::test_nothing_acts_in_what_python_shows_of_a_model",
    ),
    Bug(
        "runs/manifest",
        "a-command-of-others-is-advised-as-if-it-were-ours",
        ' (in the words of whoever wrote "\n            f"this run; read it first): ',
        ': "\n            f"',
        f"{_FILES}::test_how_to_resume_says_whose_words_a_command_is",
    ),
    Bug(
        "core/csv_text",
        "a-text-may-begin-a-formula",
        "token = _SAFE.set(safe)",
        "token = _SAFE.set(False)",
        f"{_FILES}::test_no_command_with_csv_hands_a_spreadsheet_a_formula",
    ),
    Bug(
        "core/schedule_text",
        "blocks-in-parallel-are-counted-without-end",
        "if len(blocks) > MOST_STEPS:",
        "if len(blocks) > MOST_STEPS**2:",
        f"{_FILES}::test_a_schedule_of_a_few_letters_fills_no_memory",
    ),
    Bug(
        "model/configuration",
        "a-model-has-as-many-blocks-as-it-says",
        "and not 0 < count <= _MOST_BLOCKS:",
        "and count <= 0:",
        f"{_FILES}::test_a_number_of_blocks_that_no_model_has_is_refused_before_anything_is_built",
    ),
    Bug(
        "prompts/tokenizer_growth",
        "a-tokenizer-may-double-a-text-again-and-again",
        "        if growth > _MOST_TIMES:",
        "        if growth < 0:",
        "prompts/test_tokenizer_growth.py::test_it_is_refused_before_the_library_opens_it",
    ),
    Bug(
        "prompts/tokenizer",
        "what-a-library-gives-up-on-is-no-error-of-ours",
        "        if not isinstance(error, Exception) and type(error).__name__ != _PANIC:",
        "        if not isinstance(error, Exception):",
        "prompts/test_tokenizer_growth.py::test_an_expression_that_the_library_gives_up_on_is_one_error",
    ),
    Bug(
        "model/configuration",
        "a-configuration-names-a-kernel-of-the-hub",
        "            if isinstance(choice, str) and not _WORD.fullmatch(choice):",
        "            if choice == ():",
        f"{_FILES}::test_a_configuration_names_no_code_and_no_millions_of_labels",
    ),
    Bug(
        "model/adapter_settings",
        "an-adapter-may-be-approximated-without-end",
        "if len(digits) > 9 or (digits.isdecimal() and int(digits) > _MOST_ROUNDS):",
        "if len(digits) > 9**9:",
        "model/test_adapter.py::test_rounds_without_end_are_refused_before_the_library_begins_them",
    ),
)
