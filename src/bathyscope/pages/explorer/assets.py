"""Scripts and style of the views: files of this package, joined without a build step."""

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import Any, Final

from bathyscope.pages.explorer.pack import packed

LIBRARIES: Final = ("d3.min.js", "plot.min.js")
VIEWS: Final = (
    "core",
    "profile",
    "strip",
    "prompts",
    "skyline",
    "grid",
    "maps",
    "explore",
    "sections",
    "page",
    "notebook",
)
"""Scripts in the order of the page; ``explore`` draws all views for ``page`` and ``notebook``."""


def manifest() -> list[dict[str, Any]]:
    """Return name, version, licence and hash of every third-party library."""
    libraries: list[dict[str, Any]] = json.loads(_read_file("vendor", "manifest.json"))
    return libraries


@cache
def script() -> str:
    """Return the script of a page: the views, and the code that unpacks the libraries."""
    return f"{_wrap_views()}\nviews.page();"


@cache
def packed_libraries() -> str:
    """Return the libraries as a page holds them, compressed to two fifths of their size."""
    return packed(_wrap_libraries("document.currentScript.held").encode())


def library_names() -> str:
    """List names, versions and licences of the packed libraries, for readers of a page's source."""
    return "; ".join(f"{library['name']} {library['version']}, {library['licence']} licence" for library in manifest())


@cache
def module() -> str:
    """Return the views as a module whose default export has anywidget's ``render``."""
    scripts = f"{_wrap_libraries('held')}\n{_wrap_views('held')}"
    return f"const held = {{}};\n{scripts}\nexport default {{ render: views.render }};"


def _wrap_libraries(holder: str) -> str:
    """Wrap both libraries so that they define their names in ``holder`` and nowhere else."""
    libraries = "\n".join(_read_file("vendor", name) for name in LIBRARIES)
    # Without a module system in sight both libraries define themselves on globalThis. Parameters of these names hide
    # the page's own, so nothing leaks into a notebook's other widgets.
    return f"((globalThis, exports, module, define) => {{\n{libraries}\n}})({holder});"


def _wrap_views(libraries: str = "{}") -> str:
    """Wrap the views in one closed scope, from which only ``views`` can be seen."""
    scripts = "\n".join(_read_file("views", f"{name}.js") for name in VIEWS)
    return (
        f'const views = (() => {{\n"use strict";\nlet {{ d3, Plot }} = {libraries};\n{scripts}\n'
        "return { page: () => document.readyState === 'loading' ? addEventListener('DOMContentLoaded', page) : page(), "
        "render };\n})();"
    )


@cache
def policy() -> str:
    """Return the hashes by which a page's policy allows its scripts; no other script runs."""
    # Hashes are over the exact text between the tags: a space more, and the browser refuses the script.
    hashes = (hashlib.sha256(text.encode()) for text in (script(), _wrap_libraries("document.currentScript.held")))
    return " ".join(f"'sha256-{base64.b64encode(script_hash.digest()).decode('ascii')}'" for script_hash in hashes)


def style() -> str:
    """Return the style sheet of the views, for a page or for a shadow root."""
    dark = _read_file("views", "dark.css")
    # A page follows the theme of the system; a widget follows the theme of its notebook.
    themes = (
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{\n{dark}}} }}\n"
        f":host(.dark) {{\ncolor-scheme: dark;\n{dark}}}"
    )
    return f"{_read_file('views', 'base.css')}{themes}\n{_read_file('views', 'explorer.css')}"


def _read_file(folder: str, name: str) -> str:
    return (files("bathyscope.pages.explorer") / folder / name).read_text(encoding="utf-8")
