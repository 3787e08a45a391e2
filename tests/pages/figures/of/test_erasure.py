from __future__ import annotations

import functools
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from support import waves, zoo
from support.artists import axes_titled, caption_of, drawn_from, laid_out_from
from support.synthetic import replaced
from support.synthetic_tokens import ANSWER, PIECES, complete_run

import bathyscope
from bathyscope.pages.figures.kind import draw_panel
from bathyscope.pages.figures.kit.heat_map import LABELLED_TOKENS
from bathyscope.pages.figures.of.erasure import FIGURE
from bathyscope.pages.figures.options import FigureOptions

RUN = complete_run(L=5, tokens=20)
DATA = RUN["erasure"]
LENGTHS = DATA["n_tokens"].values


@functools.cache
def drawn() -> Figure:
    return drawn_from(FIGURE, RUN)


def of_prompt(figure: Figure, prompt: int) -> Axes:
    return axes_titled(figure, f"Erasing one token: prompt p{prompt}")


@pytest.mark.parametrize("prompt", [1, 3])
def test_cells_are_the_effects_without_the_last_token(prompt: int) -> None:
    ax = of_prompt(drawn(), prompt)
    (image,) = ax.get_images()
    shown = np.ma.asarray(image.get_array())
    np.testing.assert_array_equal(shown, DATA["effect"].values[prompt, :, : LENGTHS[prompt] - 1])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("token (␣ space, ⏎ end of line)", "boundary (index)")
    assert image.colorbar.ax.get_ylabel() == "change of the output\n(L2, 0 to √2, linear)"


def test_every_token_has_its_text() -> None:
    shown = of_prompt(laid_out_from(FIGURE, RUN, panels=["prompt_1"]), 1).get_xticklabels()
    labels = [label.get_text() for label in shown]
    assert labels[:6] == ["␣spouse", "␣of", "⏎", "⇥", "$x_1$", "<b>&"]
    assert len(labels) == LENGTHS[1] - 1
    assert all(label.get_rotation() == 90 for label in shown)
    # a dollar sign is no mathematics
    assert not any(label.get_parse_math() for label in shown)


@pytest.mark.parametrize("prompt", [1, 2, 3, 4])
def test_tokens_that_predict_the_answer_are_marked(prompt: int) -> None:
    (marks,) = of_prompt(drawn(), prompt).get_lines()
    expected = [LENGTHS[prompt] - 1 - ANSWER + place for place in range(ANSWER)]
    assert list(marks.get_xdata()) == expected
    assert "Triangles: tokens at which a token of the answer is predicted" in caption_of(FIGURE, RUN)


def test_prompts_share_their_colours_and_nothing_is_clipped() -> None:
    limits = {ax.get_images()[0].get_clim() for ax in drawn().axes if ax.get_images()}
    assert limits == {(0.0, float(np.nanmax(DATA["effect"].values)))}


def test_prompts_shown_are_limited_and_told() -> None:
    options = FigureOptions(prompts_shown=2)
    assert [panel.name for panel in FIGURE.panels(RUN, options)] == ["prompt_1", "prompt_2"]
    caption = caption_of(FIGURE, RUN, options)
    assert "5 of 6 prompts were measured" in caption
    assert "Shown: the first 2 of these prompts; 3 more in the run." in caption
    assert "Shown" not in caption_of(FIGURE, RUN, FigureOptions(prompts_shown=5))


def test_effect_on_all_later_positions_stands_below() -> None:
    run = replaced(RUN, "erasure", DATA.assign(effect_future=DATA["effect"] * 0.5))
    (figure,) = [draw_panel(panel) for panel in FIGURE.panels(run, FigureOptions(prompts_shown=1))]
    above, below = [ax for ax in figure.axes if ax.get_images()]
    assert below.get_title(loc="left") == "Erasing one token, all later positions: prompt p1"
    np.testing.assert_allclose(below.get_images()[0].get_array(), above.get_images()[0].get_array() * 0.5)
    assert not any(label.get_visible() for label in above.get_xticklabels())
    assert "every position after the token" in caption_of(FIGURE, run)


def test_long_prompt_labels_some_tokens_that_do_not_overlap() -> None:
    run = complete_run(L=5, prompts=2, tokens=200)
    figure = laid_out_from(FIGURE, run)
    (ax,) = [ax for ax in figure.axes if ax.get_images()]
    places = ax.get_xticks()
    assert len(places) <= LABELLED_TOKENS
    assert set(np.diff(places)) == {3}
    boxes = [label.get_window_extent() for label in ax.get_xticklabels()]
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))
    assert "not every token is labelled" in caption_of(FIGURE, run)
    assert "not every token is labelled" not in caption_of(FIGURE, RUN)


def test_labels_of_a_full_page_do_not_overlap() -> None:
    figure = laid_out_from(FIGURE, complete_run(L=64, prompts=2, tokens=64))
    (ax,) = [ax for ax in figure.axes if ax.get_images()]
    boxes = [label.get_window_extent() for label in ax.get_xticklabels()]
    assert len(boxes) == 63
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


def test_run_without_pieces_numbers_its_tokens() -> None:
    run = replaced(RUN, "erasure", DATA.drop_vars(["piece", "answer_start"]))
    ax = of_prompt(drawn_from(FIGURE, run), 1)
    assert [label.get_text() for label in ax.get_xticklabels()][:3] == ["0", "1", "2"]
    assert not ax.get_lines()


def test_alternative_text_tells_tokens_and_largest_value() -> None:
    panel = FIGURE.panels(RUN, FigureOptions())[0]
    values = DATA["effect"].values[1, :, : LENGTHS[1] - 1]
    boundary, token = np.unravel_index(values.argmax(), values.shape)
    assert f"largest {values.max():.3g} at boundary {boundary}, token {token} (" in panel.alt
    assert "Tokens: ␣spouse ␣of ⏎ ⇥ $x_1$ <b>& " in panel.alt
    assert PIECES[1] == " spouse"


def test_where_all_prompts_are_long_the_shortest_have_maps_and_the_caption_says_so() -> None:
    """The default of 64 tokens would leave a survey of gsm8k without any map."""
    model = waves.loaded("llama")
    ids = zoo.prompts(zoo.build("llama"), (70, 66, 68, 67, 69))
    prompts = [bathyscope.Prompt(ids=one, answer_tokens=1, id=f"of-{len(one)}") for one in ids]
    with pytest.warns(UserWarning, match="2 of 5 prompts are not measured"):
        run = bathyscope.survey(model, prompts, "erasure", progress=False)
    drawing = FIGURE.drawing(run)
    told = [panel.alt.partition("prompt ")[2][:5] for panel in drawing.panels]
    assert told == ["of-66", "of-68", "of-67"]
    assert "3 of 5 prompts were measured; the others have no answer or are too long." in drawing.note
