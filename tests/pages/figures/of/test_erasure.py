from __future__ import annotations

import functools
import re
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
    fixed = np.zeros(shown.shape, dtype=bool)
    fixed[: LENGTHS[prompt] - ANSWER - 1, -1] = True
    np.testing.assert_array_equal(np.ma.getmaskarray(shown), fixed)
    np.testing.assert_array_equal(shown[~fixed], DATA["effect"].values[prompt, :, : LENGTHS[prompt] - 1].T[~fixed])
    assert (ax.get_ylabel(), ax.get_xlabel()) == ("token (␣ space, ⏎ end of line)", "boundary (index)")
    assert image.colorbar.ax.get_xlabel() == "change of the output (L2, 0 to √2, linear)"


def test_what_is_left_grey_is_0_in_a_model_too() -> None:
    prompts = [bathyscope.Prompt(ids=ids, answer_tokens=3) for ids in zoo.prompts(zoo.build("llama"), (9, 12))]
    run = bathyscope.survey(waves.loaded("llama"), prompts, ["erasure"], progress=False)
    for prompt, panel in enumerate(FIGURE.panels(run)):
        drawn_values = panel.shared[0].content.values
        measured = run["erasure"]["effect"].values[prompt].T[: len(drawn_values)]
        grey = np.isnan(drawn_values)
        assert grey.sum() == len(drawn_values) - 3
        assert not measured[grey].any()


def test_every_token_has_its_text() -> None:
    shown = of_prompt(laid_out_from(FIGURE, RUN, panels=["prompt_1"]), 1).get_yticklabels()
    labels = [label.get_text() for label in shown]
    assert labels[:6] == ["␣spouse", "␣of", "⏎", "⇥", "$x_1$", "<b>&"]
    assert len(labels) == LENGTHS[1] - 1
    assert all(label.get_rotation() == 0 for label in shown)
    # a dollar sign is no mathematics
    assert not any(label.get_parse_math() for label in shown)


@pytest.mark.parametrize("prompt", [1, 2, 3, 4])
def test_tokens_that_predict_the_answer_are_marked(prompt: int) -> None:
    (marks,) = of_prompt(drawn(), prompt).get_lines()
    expected = [LENGTHS[prompt] - 1 - ANSWER + place for place in range(ANSWER)]
    assert list(marks.get_ydata()) == expected
    assert "Triangles: tokens at which a token of the answer is predicted" in caption_of(FIGURE, RUN)


def test_prompts_share_their_colours_and_nothing_is_clipped() -> None:
    limits = {ax.get_images()[0].get_clim() for ax in drawn().axes if ax.get_images()}
    assert len(limits) == 1
    assert max(limits)[1] == float(np.nanmax(DATA["effect"].values))


def test_prompts_shown_are_limited_and_told() -> None:
    options = FigureOptions(prompts_shown=2)
    assert [panel.name for panel in FIGURE.panels(RUN, options)] == ["prompt_1", "prompt_2"]
    caption = caption_of(FIGURE, RUN, options)
    assert "5 of 6 prompts were measured" in caption
    assert "Shown: the first 2 of these prompts; 3 more in the run." in caption
    assert "Shown" not in caption_of(FIGURE, RUN, FigureOptions(prompts_shown=5))


def test_effect_on_all_later_positions_has_maps_of_its_own_in_the_same_colours() -> None:
    run = replaced(RUN, "erasure", DATA.assign(effect_future=DATA["effect"] * 0.5))
    panels = FIGURE.panels(run, FigureOptions(prompts_shown=1))
    assert [panel.name for panel in panels] == ["prompt_1", "later_1"]
    at_answer, later = (draw_panel(panel).axes[0].get_images()[0] for panel in panels)
    both = ~(np.ma.getmaskarray(at_answer.get_array()) | np.ma.getmaskarray(later.get_array()))
    np.testing.assert_allclose(later.get_array()[both], at_answer.get_array()[both] * 0.5)
    assert later.get_clim() == at_answer.get_clim()
    assert np.ma.getmaskarray(later.get_array())[:, -1].all()
    assert "every position after the token" in caption_of(FIGURE, run)


def test_long_prompt_labels_some_tokens_that_do_not_overlap() -> None:
    run = complete_run(L=5, prompts=2, tokens=200)
    figure = laid_out_from(FIGURE, run)
    (ax,) = [ax for ax in figure.axes if ax.get_images()]
    places = ax.get_yticks()
    assert len(places) <= LABELLED_TOKENS
    assert set(np.diff(places)) == {3}
    boxes = [label.get_window_extent() for label in ax.get_yticklabels()]
    assert all(above.y0 > below.y1 for above, below in pairwise(boxes))
    assert "not every token is labelled" in caption_of(FIGURE, run)
    assert "not every token is labelled" not in caption_of(FIGURE, RUN)


def test_labels_of_a_full_page_do_not_overlap() -> None:
    figure = laid_out_from(FIGURE, complete_run(L=64, prompts=2, tokens=64))
    (ax,) = [ax for ax in figure.axes if ax.get_images()]
    boxes = [label.get_window_extent() for label in ax.get_yticklabels()]
    assert len(boxes) == 63
    assert all(above.y0 > below.y1 for above, below in pairwise(boxes))


def test_run_without_pieces_numbers_its_tokens() -> None:
    run = replaced(RUN, "erasure", DATA.drop_vars(["piece", "answer_start"]))
    ax = of_prompt(drawn_from(FIGURE, run), 1)
    assert [label.get_text() for label in ax.get_yticklabels()][:3] == ["0", "1", "2"]
    assert not ax.get_lines()


def test_alternative_text_tells_tokens_and_largest_value() -> None:
    panel = FIGURE.panels(RUN, FigureOptions())[0]
    values = DATA["effect"].values[1, :, : LENGTHS[1] - 1]
    boundary, token = np.unravel_index(values.argmax(), values.shape)
    assert re.search(rf"largest {values.max():.3g} at token {token} \(.*\), boundary {boundary}\b", panel.alt)
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


def test_a_prompt_whose_place_has_several_tokens_is_not_called_unmeasured() -> None:
    prompts = [bathyscope.Prompt(ids=ids, answer_tokens=1) for ids in zoo.prompts(zoo.build("llama"), (12, 11))]
    words = [bathyscope.Prompt(ids=p.ids, answer_tokens=1, labels={"at": n}) for n, p in enumerate(prompts, start=3)]
    run = bathyscope.survey(
        waves.loaded("llama"), words, "erasure", erasure={"positions": {"at": "label:at"}}, progress=False
    )
    longer = run["erasure"].copy(deep=True)
    longer["place_stop"][1] += 1
    longer["effect"][1] = np.nan
    drawing = FIGURE.drawing(replaced(run, "erasure", longer))
    assert "prompts were measured" not in drawing.note
    assert (
        "1 of 2 prompts have maps; the others have no answer or are too long, or have no place of a single token."
        in drawing.note
    )
