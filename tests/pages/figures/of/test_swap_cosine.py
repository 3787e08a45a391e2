from __future__ import annotations

from support.artists import caption_of, drawn_from
from support.synthetic_tokens import complete_run

from bathyscope.pages.figures.of.swap_cosine import FIGURE
from bathyscope.pages.figures.options import FigureOptions

BY_TOKENS = FigureOptions(weighting="tokens")
RUN = complete_run(L=6, tokens=6)
DATA = RUN["swap_cosine"]


def test_axes() -> None:
    for ax in drawn_from(FIGURE, RUN, BY_TOKENS).axes:
        assert ax.get_ylabel() == "cosine (dimensionless)"
        assert ax.get_xlabel() == "first of the swapped blocks (0-based index)"


def test_caption_says_what_is_compared() -> None:
    assert "Block ℓ+1 runs before block ℓ." in caption_of(FIGURE, RUN)
