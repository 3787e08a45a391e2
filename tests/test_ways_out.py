"""What is shown, published and run passes through the functions that trust nobody; what does not stands here.

``test_readers_and_writers.py`` holds the same of files. Each table says of a function why it may do what all others
leave to one place.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

SRC: Final = Path(__file__).parents[1] / "src" / "bathyscope"
ONE_PLACE: Final = "what every other file passes through"
ESCAPED: Final = "every text in it went through legible and escape"
NO_HTML: Final = "no HTML: a pattern or a format"
DRAWN: Final = "drawn here, by functions that escape every text"
PACKAGE: Final = "a file of the package"
NAMED_HERE: Final = "the module's name is written in the package"
HARNESS: Final = "a module of the installed harness, by its name"
TYPED: Final = "what a user has typed; in files it is refused unless code is allowed"
OWN_FOLDER: Final = "a folder that bathyscope writes; what lies in it is refused or left out by name"
NAMES: Final = "names for a message or a refusal; nothing of them is opened"
TYPED_FOLDER: Final = "in a folder that the user typed; its files pass through core.foreign"
LOOKED_AT: Final = "names alone, each of which is looked at before it is opened"
"""Reasons."""


def name_of(function: ast.expr) -> str:
    return (
        function.id if isinstance(function, ast.Name) else function.attr if isinstance(function, ast.Attribute) else ""
    )


def calls(*names: str) -> Callable[[ast.AST], bool]:
    return lambda node: isinstance(node, ast.Call) and name_of(node.func) in names


def is_of_yaml_or_torch(node: ast.AST) -> bool:
    """``yaml.load``, ``torch.load``, ``pickle.loads``, ``yaml.compose`` …; not ``json.loads``."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in ("yaml", "torch", "pickle", "dill", "joblib", "marshal", "shelve")
        and node.func.attr in ("load", "loads", "load_all", "unsafe_load", "full_load", "compose", "open")
    )


def is_builtin(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("exec", "eval", "compile", "__import__")
    )


TAG: Final = re.compile(r"</?[a-z]|=\"$")
ESCAPES: Final = frozenset({"escape", "Markup"})


def builds_html(node: ast.AST) -> bool:
    """An f-string of tags with a value that is neither escaped nor written as a number."""
    if not isinstance(node, ast.JoinedStr):
        return False
    text = "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
    return TAG.search(text) is not None and any(
        isinstance(part, ast.FormattedValue)
        and part.format_spec is None
        and not (isinstance(part.value, ast.Call) and name_of(part.value.func) in ESCAPES)
        for part in node.values
    )


MARKDOWN: Final = re.compile(r"^\s*(?:[-#|*>]|\d+\.) |\*\*|\]\(|`")
LITERAL: Final = frozenset({"literal_markdown", "_code_span", "_code"})


def builds_markdown(node: ast.AST) -> bool:
    """An f-string of Markdown with a value that is not literal; asked of files that write Markdown."""
    if not isinstance(node, ast.JoinedStr):
        return False
    text = "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
    return MARKDOWN.search(text) is not None and any(
        isinstance(part, ast.FormattedValue)
        and part.format_spec is None
        and not (isinstance(part.value, ast.Call) and name_of(part.value.func) in LITERAL)
        for part in node.values
    )


def writes_markdown(source: str) -> bool:
    return "literal_markdown" in source or "markdown_table" in source or "markdown_of" in source


WAYS: Final[dict[str, tuple[Callable[[ast.AST], bool], dict[str, str]]]] = {
    "printing": (
        calls("print", "Console"),
        {
            "cli/console.py:_wrap_lines": "measures the width alone",
            "cli/console.py:print_text": ONE_PLACE,
            "cli/console.py:say": ONE_PLACE,
            "cli/console.py:terminal_width": "measures the width alone",
            "cli/table_printing.py:print_table": "into a text, which print_text prints",
            "core/progress.py:_show": "a bar, whose title is legible",
            "core/progress.py:write_line": "a bar's lines, which are legible",
        },
    ),
    "html by hand": (
        builds_html,
        {
            "core/result.py:_repr_html_": ESCAPED,
            "core/tables.py:html_table": ESCAPED,
            "model/gguf.py:_are_ones": NO_HTML,
            "prompts/continued.py:": NO_HTML,
            "pages/explorer/still.py:still_html": ESCAPED,
            "pages/figures/svg.py:": NO_HTML,
            "pages/figures/svg.py:_share_styles": DRAWN,
            "pages/figures/svg.py:draw_once": DRAWN,
            "pages/files/badge.py:_draw_bars": DRAWN,
            "pages/files/badge.py:draw_badge": ESCAPED,
            "pages/head/notebook.py:notebook_html": ESCAPED,
            "pages/head/svg.py:_print_element": DRAWN,
            "pages/head/svg.py:_print_words": ESCAPED,
            "pages/head/svg.py:print_svg": DRAWN,
            "prompts/spec.py:": NO_HTML,
            "runs/places.py:__init__": NO_HTML,
            "surgery/trial/written.py:": NO_HTML,
        },
    ),
    "markup": (
        calls("Markup"),
        {
            "pages/acts/plan_head.py:plan_head": DRAWN,
            "pages/comparison/picture.py:comparison_html": DRAWN,
            "pages/explorer/html.py:_embed_panel": DRAWN,
            "pages/explorer/html.py:write_page": PACKAGE,
            "pages/head/section.py:_make_section": DRAWN,
            "pages/head/section.py:profile_html": DRAWN,
            "pages/page.py:report": PACKAGE,
            "pages/text/commands.py:mark_up_command": ESCAPED,
            "pages/text/environment.py:_write_table": ESCAPED,
        },
    ),
    "tables as csv": (
        calls("to_csv", "to_html", "to_markdown", "to_latex", "to_excel", "DictWriter"),
        {"core/csv_text.py:csv_text": ONE_PLACE},
    ),
    "markdown by hand": (
        builds_markdown,
        {
            "core/tables.py:markdown_table": ONE_PLACE,
            "pages/files/card.py:_is_card": "reads one",
            "pages/files/card.py:_write_text": "a picture's name, which its user typed, and JSON that ends no block",
            "surgery/checkpoint/card.py:card": "numbers, schedules and hashes that are computed here",
        },
    ),
    "publishing": (
        calls("HfApi", "upload_file", "upload_folder", "create_commit", "push_to_hub"),
        {"runs/hub.py:push_folder": ONE_PLACE},
    ),
    "code": (
        lambda node: (
            is_of_yaml_or_torch(node)
            or is_builtin(node)
            or calls("import_module", "spec_from_file_location", "exec_module", "SourceFileLoader", "load_source")(node)
            or calls(
                "system", "popen", "Popen", "check_output", "run_path", "run_module", "get_class_from_dynamic_module"
            )(node)
        ),
        {
            "__init__.py:__getattr__": NAMED_HERE,
            "cli/app.py:_run_with_flags_of": NAMED_HERE,
            "core/lazy.py:load_name": NAMED_HERE,
            "core/strict.py:read_yaml": "by a safe loader, which makes plain values",
            "core/strict.py:yaml_scalars": "into nodes, by a safe loader",
            "extend/__init__.py:__getattr__": NAMED_HERE,
            "measures/jacobian/files.py:_published": "tensors alone, whose steps archives.py has looked at",
            "measures/registry.py:_code_of": NAMED_HERE,
            "measures/registry.py:_load_from_text": TYPED,
            "measures/registry.py:_read_file": NAMED_HERE,
            "measures/registry.py:_run_file": TYPED,
            "model/anatomy/registry.py:families": NAMED_HERE,
            "pages/figures/registry.py:_own_figures": NAMED_HERE,
            "prompts/harness/documents.py:_joined": HARNESS,
            "prompts/harness/loading.py:_find_manager": HARNESS,
            "prompts/harness/loading.py:_read_task": HARNESS,
            "prompts/harness/loading.py:hellaswag_from_ctx": HARNESS,
            "prompts/harness/loading.py:quietly": HARNESS,
            "prompts/harness/task_code.py:_metrics": HARNESS,
            "prompts/harness/task_code.py:confine_templates": HARNESS,
        },
    ),
    "reading recipes": (
        calls("read_recipe", "read_yaml", "yaml_scalars"),
        {
            "cli/commands/survey.py:read_request": "require_no_code is asked next",
            "core/recipes.py:read_recipe": ONE_PLACE,
            "prompts/harness/task_code.py:_scalars_of": "looked through for code; nothing is made of it",
            "surveying/grids.py:_cells": "require_no_code is asked next",
        },
    ),
    "listing folders": (
        calls("glob", "rglob", "iterdir", "scandir", "listdir", "copytree", "rmtree"),
        {
            "cli/commands/evaluate.py:evaluate_command": NAMES,
            "core/atomic.py:remove_partial": OWN_FOLDER,
            "core/paths.py:similar_file": NAMES,
            "model/checkpoint.py:_require_no_pickle": NAMES,
            "model/files.py:_files_in": LOOKED_AT,
            "model/files.py:indexed": LOOKED_AT,
            "model/gguf.py:_absent": NAMES,
            "model/place.py:_models_in": NAMES,
            "model/place.py:similar_folders": NAMES,
            "model/states/folder.py:_paths": LOOKED_AT,
            "pages/papers/data.py:_find_files": TYPED_FOLDER,
            "prompts/corpus.py:_texts_in": LOOKED_AT,
            "prompts/files.py:saved_data_set": NAMES,
            "runs/folder.py:_holds": NAMES,
            "runs/folder.py:course_in_words": NAMES,
            "runs/folder.py:inner_folders": ONE_PLACE,
            "runs/folder.py:refuse_foreign": NAMES,
            "runs/growth.py:tidy": OWN_FOLDER,
            "runs/publishing.py:listed": OWN_FOLDER,
            "surgery/benchmarks/shelf.py:_upgrade_manifest": LOOKED_AT,
            "surgery/checkpoint/source.py:has_tokenizer": NAMES,
            "surgery/checkpoint/source.py:list_companions": LOOKED_AT,
            "surgery/checkpoint/source.py:source_of": NAMES,
            "surgery/checkpoint/target_folder.py:put": OWN_FOLDER,
            "surgery/checkpoint/target_folder.py:require_free": NAMES,
            "surveying/training/course.py:_checkpoints_in": TYPED_FOLDER,
        },
    ),
}


def places(source: str, file: str, is_way: Callable[[ast.AST], bool]) -> Iterator[str]:
    """The functions in which something is done, a function as often as it does it."""

    def visit(node: ast.AST, function: str) -> Iterator[str]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = node.name
        if is_way(node) and not isinstance(node, ast.FunctionDef):
            yield f"{file}:{function}"
        for child in ast.iter_child_nodes(node):
            yield from visit(child, function)

    return visit(ast.parse(source), "")


def all_places(way: str) -> set[str]:
    is_way, _ = WAYS[way]
    found: set[str] = set()
    for path in SRC.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        if way != "markdown by hand" or writes_markdown(source):
            found |= set(places(source, path.relative_to(SRC).as_posix(), is_way))
    return found


@pytest.mark.parametrize("way", WAYS)
def test_what_goes_out_is_said(way: str) -> None:
    _, exempt = WAYS[way]
    found = all_places(way)
    assert sorted(found - set(exempt)) == [], "show, publish and run through the one place for it"
    assert sorted(set(exempt) - found) == [], "it is not done there any more"


@pytest.mark.parametrize(
    ("way", "call"),
    [
        ("printing", "print(text)"),
        ("html by hand", "f'<p>{name}</p>'"),
        ("html by hand", "f'<p title=\"{name}\">'"),
        ("markup", "Markup(text)"),
        ("tables as csv", "frame.to_csv(path)"),
        ("markdown by hand", "f'| {name} | 1 |'"),
        ("markdown by hand", "f'# {name}'"),
        ("publishing", "HfApi()"),
        ("code", "eval(text)"),
        ("code", "importlib.import_module(name)"),
        ("code", "torch.load(path)"),
        ("code", "yaml.load(text, Loader)"),
        ("reading recipes", "read_recipe(path)"),
        ("listing folders", "folder.glob('*')"),
    ],
)
def test_every_way_is_seen(way: str, call: str) -> None:
    assert list(places(f"def function():\n    return {call}\n", "a.py", WAYS[way][0])) == ["a.py:function"]


@pytest.mark.parametrize(
    ("way", "call"),
    [
        ("html by hand", "f'<p>{escape(legible(name))}</p>{width:.1f}'"),
        ("markdown by hand", "f'| {literal_markdown(name)} | 1 |'"),
        ("code", "model.eval()"),
        ("code", "re.compile(text)"),
        ("code", "json.load(text)"),
    ],
)
def test_what_is_escaped_or_runs_nothing_is_no_way_out(way: str, call: str) -> None:
    assert list(places(f"def function():\n    return {call}\n", "a.py", WAYS[way][0])) == []
