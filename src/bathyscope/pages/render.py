"""A figure as bytes: in every format, the same figure gives the same bytes."""

import io
from typing import Any, Final

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from bathyscope.errors import OptionError, did_you_mean
from bathyscope.pages.figures.kit import style
from bathyscope.pages.options import FORMATS

# matplotlib's files differ from run to run only by dates and random ids. The hash salt of ``render`` fixes the ids.
_NO_DATES: Final[dict[str, dict[str, Any]]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def render(figure: Figure, format_: str, *, salt: str = "bathyscope", text_as_text: bool = False) -> bytes:
    """Return the bytes of the figure's file.

    Args:
        format_: png, svg or pdf.
        salt: seeds the ids inside an SVG; figures on one page need different salts.
        text_as_text: SVG only: write letters as text (smaller, searchable) instead of outlines.

    Raises:
        OptionError: another format.
    """
    check_format(format_)
    settings: Any = {
        # Without a salt ids are random; with the same salt, two pictures on one page would share their ids.
        "svg.hashsalt": salt,
        "svg.fonttype": "none" if text_as_text else "path",
        # Embed fonts as TrueType: journals refuse the Type 3 fonts that matplotlib embeds by default.
        "pdf.fonttype": 42,
    }
    stream = io.BytesIO()
    with style.applied(), mpl.rc_context(settings):
        if format_ == "svg":
            # The same file as from savefig, which would first draw everything once more to learn the places of texts.
            figure.set_dpi(float(mpl.rcParams["savefig.dpi"]))
            FigureCanvasSVG(figure).print_svg(stream, metadata=_NO_DATES["svg"])
        else:
            figure.savefig(stream, format=format_, metadata=_NO_DATES[format_])
    return stream.getvalue()


def check_format(format_: str) -> None:
    """Refuse a format that is not one of ``FORMATS``."""
    if format_ not in FORMATS:
        raise OptionError(
            f"Figure format {format_!r} is unknown; allowed: {', '.join(FORMATS)}.{did_you_mean(format_, FORMATS)}"
        )
