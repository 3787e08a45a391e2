"""The scripts and the style of the views: files of this package, put together as they are."""

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import Any, Final

from bathyscope.pages.explorer.pack import packed

LIBRARIES: Final = ("d3.min.js", "plot.min.js")
VIEWS: Final = ("core", "strip", "prompts", "text", "grid", "maps", "explore", "sections", "page", "notebook")
"""Scripts in the order of the whole; ``explore`` draws all views, for ``page`` and for ``notebook``."""


def manifest() -> list[dict[str, Any]]:
    """Name, version, licence and hash of every library that came from elsewhere."""
    found: list[dict[str, Any]] = json.loads(_file("vendor", "manifest.json"))
    return found


@cache
def script() -> str:
    """What runs in a page: the views, and what unpacks the libraries for them."""
    return f"{_views()}\nviews.page();"


@cache
def packed_libraries() -> str:
    """The libraries as a page holds them: nine tenths of all scripts, which compress to two fifths."""
    return packed(_libraries("document.currentScript.held").encode())


def library_names() -> str:
    """What the packed text holds, for who reads a page's source: names, versions and licences."""
    return "; ".join(f"{one['name']} {one['version']}, {one['licence']} licence" for one in manifest())


@cache
def module() -> str:
    """The same as a module whose default export has anywidget's ``render``."""
    return f"const held = {{}};\n{_libraries('held')}\n{_views('held')}\nexport default {{ render: views.render }};"


def _libraries(holder: str) -> str:
    """Both of them, put into what ``holder`` names and nowhere else."""
    libraries = "\n".join(_file("vendor", name) for name in LIBRARIES)
    # they put themselves into what they find as globalThis, wherever no module system is in sight
    return f"((globalThis, exports, module, define) => {{\n{libraries}\n}})({holder});"


def _views(libraries: str = "{}") -> str:
    """The views in one closed scope, of which nothing but ``views`` is seen outside."""
    own = "\n".join(_file("views", f"{name}.js") for name in VIEWS)
    return (
        f'const views = (() => {{\n"use strict";\nlet {{ d3, Plot }} = {libraries};\n{own}\n'
        "return { page: () => document.readyState === 'loading' ? addEventListener('DOMContentLoaded', page) : page(), "
        "render };\n})();"
    )


@cache
def policy() -> str:
    """What a page's policy names the scripts by: nothing else runs in it."""
    hashes = (hashlib.sha256(text.encode()) for text in (script(), _libraries("document.currentScript.held")))
    return " ".join(f"'sha256-{base64.b64encode(one.digest()).decode('ascii')}'" for one in hashes)


def style() -> str:
    """The views' own style sheet, for a page or for the inside of an element of its own."""
    dark = _file("views", "dark.css")
    # of the system on a page, of the notebook in one
    themes = (
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{\n{dark}}} }}\n"
        f":host(.dark) {{\ncolor-scheme: dark;\n{dark}}}"
    )
    return f"{_file('views', 'base.css')}{themes}\n{_file('views', 'explorer.css')}"


def _file(folder: str, name: str) -> str:
    return (files("bathyscope.pages.explorer") / folder / name).read_text(encoding="utf-8")
