"""``python -m studies.saved_depth``: train and measure what is not stored yet, write the page and its figure."""

from __future__ import annotations

from pathlib import Path

from cyclopts import App

from studies.common.command import Quiet
from studies.common.console import quiet_libraries, say

_DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = _DOCS / "experiments" / "saved_depth.md"
FIGURE = _DOCS / "images" / "saved_depth.svg"

app = App(name="saved_depth", help="Depth of an answer with written steps, and with texts learned along with the task.")


@app.command(name="measure")
def measure_command(*, out: Path, texts: Path, results: Path | None = None, quiet: Quiet = False) -> int:
    """Train and measure what is not stored yet, about a quarter of an hour on one core.

    Args:
        out: folder of the trainings.
        texts: a plain text file for the mixtures; the stored results read Tiny Shakespeare.
        results: folder of results; left out = the one in this repository.
        quiet: no messages; warnings and errors remain.
    """
    from studies.saved_depth.measuring import RESULTS, measure

    with quiet_libraries():
        measure(out, texts, results or RESULTS, lambda line: say(line, quiet))
    return 0


@app.command(name="page")
def page_command(*, results: Path | None = None, page: Path | None = None, figure: Path | None = None) -> int:
    """Write the tables of the page and its figure from the stored results.

    Args:
        results: folder of results; left out = the one in this repository.
        page: Markdown with the marks; left out = docs/experiments/saved_depth.md.
        figure: SVG that is written; left out = docs/images/saved_depth.svg.
    """
    from studies.common.files import write_file
    from studies.saved_depth.differences import load_stored
    from studies.saved_depth.figure import picture
    from studies.saved_depth.measuring import RESULTS
    from studies.saved_depth.page import with_results

    place, folder = page or PAGE, results or RESULTS
    place.write_text(with_results(place.read_text(encoding="utf-8"), folder), encoding="utf-8")
    write_file(figure or FIGURE, picture(load_stored(folder)))
    return 0
