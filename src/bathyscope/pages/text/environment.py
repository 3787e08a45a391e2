"""The templates of pages: what they are filled with is escaped, and shown without acting."""

from collections.abc import Iterable, Sequence
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from bathyscope.core.tables import html_table
from bathyscope.core.text import legible
from bathyscope.pages.text.commands import mark_up_command


@cache
def environment() -> Environment:
    """Return the environment of all templates."""
    templates = Environment(
        loader=PackageLoader("bathyscope.pages"),
        autoescape=True,
        # A misspelt name in a template is an error here, and not an empty place on somebody's page.
        undefined=StrictUndefined,
        trim_blocks=True,
        # Autoescape keeps control characters and marks of direction. Markup is left alone: its type is not str itself.
        finalize=lambda value: legible(value) if type(value) is str else value,
    )
    templates.filters["command"] = mark_up_command
    templates.globals["html_table"] = _write_table
    return templates


def _write_table(headings: Sequence[object], rows: Iterable[Sequence[object]], kind: str) -> Markup:
    """Return the table of :func:`html_table`, which has escaped it."""
    return Markup(html_table(headings, rows, kind=kind))
