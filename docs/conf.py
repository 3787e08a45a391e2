"""How Sphinx makes the site of these pages: `make docs`."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE.parent), str(HERE)]

import bathyscope  # noqa: E402
import bathyscope.pages.page  # noqa: E402

project = "bathyscope"
author = "The bathyscope authors"
release = bathyscope.__version__
# a package that is also a call: the call is what is documented
bathyscope.report = bathyscope.pages.page.report

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "accessible",
]
templates_path = ["_templates"]
exclude_patterns = [
    "generated/figures",
    "generated/measures",
    "generated/planted",
    "generated/thumbnails.md",
    "generated/live",
    "generated/space",
    "**/.ipynb_checkpoints",
]
html_theme = "furo"
html_title = "bathyscope"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_logo = "_static/logo.svg"
html_favicon = "_static/favicon.svg"
# the reports are pages of their own, copied as they are next to the site's
html_extra_path = ["generated/live"]
# a call has a line for each argument where one line does not hold them
maximum_signature_line_length = 88
html_copy_source = False
html_show_copyright = False

# every name that the documents refer to must be there; types of other packages are not linked
nitpicky = True
nitpick_ignore_regex = [(r"py:.*", r"(?!bathyscope\.[A-Za-z_]+$).*")]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
# a notebook is run when the site is made, and a cell that fails fails the site; without: BATHYSCOPE_DOCS_NOTEBOOKS=off
nb_execution_mode = os.environ.get("BATHYSCOPE_DOCS_NOTEBOOKS", "auto")
nb_execution_raise_on_error = True
nb_execution_timeout = 300
# a widget needs a script from elsewhere; the site shows the still picture, and the report is the live page
nb_mime_priority_overrides = [("html", "text/html", 5)]

autodoc_member_order = "bysource"
# names and defaults; with their types, such as those of `survey`, signatures fill a page
autodoc_typehints = "none"
autodoc_preserve_defaults = True
napoleon_custom_sections = [("Class attributes", "params_style")]

ELSEWHERE = {
    "../CONTRIBUTING.md": "generated/contributing.md",
    "../CHANGELOG.md": "generated/changelog.md",
    "../checkpoints": "generated/checkpoints.md",
}
"""What lies beside the folder of documents, and the page of the site that has its text."""


def _lead_to_the_site(app: Sphinx, name: str, source: list[str]) -> None:
    """Links to files beside the folder of documents, right for who reads these in the repository, lead to its pages."""
    up = "../" * name.count("/")
    for place, page in ELSEWHERE.items():
        source[0] = re.sub(rf"\]\({re.escape(up + place)}(?=[)#])", f"]({up}{page}", source[0])


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _lead_to_the_site)
