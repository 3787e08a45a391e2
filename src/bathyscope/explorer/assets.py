"""The scripts and the style of the views: files of this package, put together as they are."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import Any, Final

LIBRARIES: Final = ("d3.min.js", "plot.min.js")
VIEWS: Final = ("core.js", "strip.js", "prompts.js", "text.js", "grid.js", "maps.js", "sections.js", "start.js")
"""In the order in which they stand in a page; ``start.js`` draws them all."""


def manifest() -> list[dict[str, Any]]:
    """Name, version, licence and hash of every library that came from elsewhere."""
    found: list[dict[str, Any]] = json.loads(_file("vendor", "manifest.json"))
    return found


@cache
def script() -> str:
    """Everything that runs in a page: the libraries, then the views in one closed scope."""
    libraries = [_file("vendor", name) for name in LIBRARIES]
    views = "\n".join(_file("views", name) for name in VIEWS)
    return "\n".join([*libraries, f'(() => {{\n"use strict";\n{views}\n}})();'])


@cache
def script_hash() -> str:
    """What a page's policy names the script by: nothing else runs in it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script().encode()).digest()).decode("ascii")


def style() -> str:
    """The views' own style sheet; colours are those of the page."""
    return _file("views", "explorer.css")


def _file(folder: str, name: str) -> str:
    return (files("bathyscope.explorer") / folder / name).read_text(encoding="utf-8")
