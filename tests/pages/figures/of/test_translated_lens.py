from __future__ import annotations

import numpy as np
import pytest
from support.artists import axes_titled, caption_of, curve, drawn_from
from support.synthetic import told
from support.synthetic_tokens import complete_run

from bathyscope.pages.figures.of.translated_lens import FIGURE
from bathyscope.pages.figures.options import FigureOptions

BY_TOKENS = FigureOptions(weighting="tokens")
RUN = complete_run(L=5)
DATA = RUN["translated_lens"]
COUNTS = DATA["n_averaged"].values[1:]


@pytest.mark.parametrize("reader", ["translated", "lens"])
@pytest.mark.parametrize(
    ("name", "title"), [("kl", "Distance from the final"), ("top1_agreement", "Same top-1 token as in the end")]
)
def test_lines_are_means_over_the_tokens_that_no_map_was_fitted_to(name: str, title: str, reader: str) -> None:
    x, y = curve(axes_titled(drawn_from(FIGURE, RUN, BY_TOKENS), title), reader)
    np.testing.assert_array_equal(x, range(6))
    np.testing.assert_allclose(y, COUNTS @ DATA[name].sel(reader=reader).values[1:] / COUNTS.sum())


def test_depths_of_both_readers_stand_one_above_the_other() -> None:
    ax = axes_titled(drawn_from(FIGURE, RUN, BY_TOKENS), "Where predictions settle")
    assert [label.get_text() for label in ax.get_yticklabels()] == ["translated", "lens"]
    dots = [line.get_xdata() for line in ax.get_lines() if line.get_label() == "prompts"]
    for found, reader in zip(dots, ("translated", "lens"), strict=True):
        np.testing.assert_array_equal(found, DATA["prediction_depth"].sel(reader=reader).values[1:])


def test_the_caption_states_both_depths_and_how_many_prompts_were_read() -> None:
    caption = caption_of(FIGURE, RUN)
    assert "of the 5 prompts that no map was fitted to" in caption
    decodable, readable = float(DATA["decodable"]), float(DATA["readable"])
    assert f"{decodable:.1f} translated (decodable) and {readable:.1f} by the lens on these tokens" in caption


def test_the_caption_names_the_tokens_that_means_are_over() -> None:
    assert "over the tokens, without position 0, of the 5 prompts" in caption_of(FIGURE, RUN)
    answers = told(RUN, "translated_lens", positions="answer")
    assert "over the tokens that predict the answers of the 5 prompts" in caption_of(FIGURE, answers)
