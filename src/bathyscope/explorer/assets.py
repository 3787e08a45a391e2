"""The scripts and the style of the views: files of this package, put together as they are."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import Any, Final

LIBRARIES: Final = ("d3.min.js", "plot.min.js")
VIEWS: Final = ("core", "strip", "prompts", "text", "grid", "maps", "explore", "sections", "page", "notebook")
"""Scripts in the order of the whole; ``explore`` draws all views, for ``page`` and for ``notebook``."""


def manifest() -> list[dict[str, Any]]:
    """Name, version, licence and hash of every library that came from elsewhere."""
    found: list[dict[str, Any]] = json.loads(_file("vendor", "manifest.json"))
    return found


@cache
def script() -> str:
    """Everything that runs in a page."""
    return f"{_views()}\nviews.page();"


@cache
def module() -> str:
    """The same as a module whose default export has anywidget's ``render``."""
    return f"{_views()}\nexport default {{ render: views.render }};"


def _views() -> str:
    """The libraries and the views in one closed scope, of which nothing but ``views`` is seen outside."""
    libraries = "\n".join(_file("vendor", name) for name in LIBRARIES)
    # they put themselves into what they find as globalThis, wherever no module system is in sight
    closed = f"const held = {{}};\n((globalThis, exports, module, define) => {{\n{libraries}\n}})(held);"
    own = "\n".join(_file("views", f"{name}.js") for name in VIEWS)
    return (
        f'const views = (() => {{\n"use strict";\n{closed}\nconst {{ d3, Plot }} = held;\n{own}\n'
        "return { page: () => document.readyState === 'loading' ? addEventListener('DOMContentLoaded', page) : page(), "
        "render };\n})();"
    )


@cache
def script_hash() -> str:
    """What a page's policy names the script by: nothing else runs in it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script().encode()).digest()).decode("ascii")


def style() -> str:
    """The views' own style sheet, for a page or for the inside of an element of its own."""
    dark = _file("views", "dark.css")
    # of the system on a page, of the notebook in one
    themes = (
        f"@media (prefers-color-scheme: dark) {{ :root {{\n{dark}}} }}\n:host(.dark) {{\ncolor-scheme: dark;\n{dark}}}"
    )
    return f"{_file('views', 'base.css')}{themes}\n{_file('views', 'explorer.css')}"


def _file(folder: str, name: str) -> str:
    return (files("bathyscope.explorer") / folder / name).read_text(encoding="utf-8")
