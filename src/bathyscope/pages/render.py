"""A figure as bytes: the same figure gives the same bytes, in every format."""

import io
from typing import Any, Final

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from bathyscope.errors import OptionError, did_you_mean
from bathyscope.pages.figures.kit import style
from bathyscope.pages.options import FORMATS

# Dates and random ids are what makes matplotlib's files differ from one run to the next.
_NO_DATES: Final[dict[str, dict[str, Any]]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def render(figure: Figure, format_: str, *, salt: str = "bathyscope", text_as_text: bool = False) -> bytes:
    """The figure's file.

    Args:
        format_: png, svg or pdf.
        salt: makes the ids inside an SVG; figures that share a page need different ones.
        text_as_text: SVG only: keep letters as text (smaller, searchable) in place of outlines.

    Raises:
        OptionError: another format.
    """
    check_format(format_)
    settings: Any = {
        "svg.hashsalt": salt,
        "svg.fonttype": "none" if text_as_text else "path",
        "pdf.fonttype": 42,
    }
    stream = io.BytesIO()
    with style.applied(), mpl.rc_context(settings):
        if format_ == "svg":
            # as savefig writes it, which would draw everything once more beforehand, for the places of texts alone
            figure.set_dpi(float(mpl.rcParams["savefig.dpi"]))
            FigureCanvasSVG(figure).print_svg(stream, metadata=_NO_DATES["svg"])
        else:
            figure.savefig(stream, format=format_, metadata=_NO_DATES[format_])
    return stream.getvalue()


def check_format(format_: str) -> None:
    """Raises OptionError where ``format_`` is not one of the formats."""
    if format_ not in FORMATS:
        raise OptionError(
            f"Figure format {format_!r} is not known; allowed: {', '.join(FORMATS)}.{did_you_mean(format_, FORMATS)}"
        )
