"""A figure as bytes: in every format, the same figure gives the same bytes."""

import io
import shutil
from collections.abc import Sequence
from typing import Any, Final

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from bathyscope.errors import OptionError, describe_value, did_you_mean
from bathyscope.options import require_different
from bathyscope.pages.figures.kit import style
from bathyscope.pages.options import FORMATS, PICTURE_FORMATS

# matplotlib's files differ from run to run only by dates and random ids. The hash salt of ``render`` fixes the ids.
# By who wrote them, files are told from a user's own before they are replaced (``core/own_files.py``).
_NO_DATES: Final[dict[str, dict[str, Any]]] = {
    "png": {"Software": "bathyscope"},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": "bathyscope", "Producer": None},
    "pgf": {},
}


def render(
    figure: Figure,
    format_: str,
    *,
    salt: str = "bathyscope",
    text_as_text: bool = False,
    own_style: bool = False,
) -> bytes:
    """Return the bytes of the figure's file.

    Args:
        figure: of ``arrange``, or any other.
        format_: png, svg, pdf or pgf.
        salt: seeds the ids inside an SVG; figures on one page need different salts.
        text_as_text: SVG only: write letters as text (smaller, searchable) instead of outlines.
        own_style: settings that the caller has changed from matplotlib's own stay.

    Raises:
        OptionError: another format; PGF without TeX, which measures its letters.

    Example:
        >>> from bathyscope.extend.figures import Panel, arrange, render
        >>> loss = Panel("loss", lambda figure: figure.subplots().plot([3.1, 2.7]), "The loss falls from 3.1 to 2.7.")
        >>> render(arrange("Loss by epoch", [loss]), "png")[1:4]
        b'PNG'
    """
    check_format(format_, PICTURE_FORMATS)
    if not isinstance(figure, Figure):
        raise OptionError(
            f"figure={describe_value(figure)} is no figure; give one of matplotlib, such as arrange makes."
        )
    if format_ == "pgf":
        _require_tex()
    settings: Any = {
        # Without a salt ids are random; with the same salt, two pictures on one page would share their ids.
        "svg.hashsalt": salt,
        "svg.fonttype": "none" if text_as_text else "path",
        # Embed fonts as TrueType: journals refuse the Type 3 fonts that matplotlib embeds by default.
        "pdf.fonttype": 42,
    }
    stream = io.BytesIO()
    with style.applied(changed_stay=own_style), mpl.rc_context(settings):
        if format_ == "svg":
            # The same file as from savefig, which would first draw everything once more to learn the places of texts.
            figure.set_dpi(float(mpl.rcParams["savefig.dpi"]))
            FigureCanvasSVG(figure).print_svg(stream, metadata=_NO_DATES["svg"])
        else:
            # The backend of PGF takes no metadata.
            dates: Any = {"metadata": _NO_DATES[format_]} if _NO_DATES[format_] else {}
            figure.savefig(stream, format=format_, **dates)
    return stream.getvalue()


def _require_tex() -> None:
    program = str(mpl.rcParams["pgf.texsystem"])
    if shutil.which(program) is None:
        raise OptionError(
            f"A .pgf file needs TeX to measure its letters, and {program} is not found. Write .pdf or .svg, or install "
            "TeX."
        )


def check_formats(formats: Sequence[str]) -> None:
    """Refuse a list of formats that is empty, or holds an unknown one, or one twice."""
    if isinstance(formats, str) or not formats:
        raise OptionError(
            f"formats={formats!r} is not allowed. Give a list with at least one of: {', '.join(FORMATS)}."
        )
    for format_ in formats:
        check_format(format_)
    require_different(list(formats), "formats")


def check_format(format_: str, allowed: Sequence[str] = FORMATS) -> None:
    """Refuse a format that is not allowed."""
    if format_ not in allowed:
        raise OptionError(
            f"Figure format {format_!r} is unknown; allowed: {', '.join(allowed)}.{did_you_mean(format_, allowed)}"
        )
