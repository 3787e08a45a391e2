from __future__ import annotations

import numpy as np
from support.artists import axes_titled, caption_of, drawn_from
from support.synthetic import replaced
from support.synthetic_tokens import ANSWER, complete_run

from bathyscope.pages.figures.of.patching import FIGURE
from bathyscope.pages.figures.options import FigureOptions

RUN = complete_run(L=5, prompts=4)
DATA = RUN["patching"]
READ = DATA["read_at"].values
FIGURE_OF_ALL = drawn_from(FIGURE, RUN, FigureOptions(prompts_shown=4))


def assert_measured(title: str, own: np.ndarray, read: int) -> None:
    """The map holds the values of all tokens up to the one that is read; behind the last boundary of this one alone."""
    (image,) = axes_titled(FIGURE_OF_ALL, title).get_images()
    cells = np.ma.asarray(image.get_array())
    fixed = np.zeros(cells.shape, dtype=bool)
    fixed[:read, -1] = True
    np.testing.assert_array_equal(np.ma.getmaskarray(cells), fixed)
    np.testing.assert_array_equal(cells[~fixed], own[:, : read + 1].T[~fixed])


def test_cells_are_the_way_up_to_the_token_that_is_read() -> None:
    for prompt in (1, 2):
        own = DATA["recovered"].sel(part="block").values[prompt]
        assert_measured(f"Patching the stream: prompt p{prompt}", own, READ[prompt])
        (marks,) = axes_titled(FIGURE_OF_ALL, f"Patching the stream: prompt p{prompt}").get_lines()
        assert list(marks.get_ydata()) == [READ[prompt]]
        assert READ[prompt] == DATA["n_tokens"].values[prompt] - ANSWER - 1


def test_a_part_stands_at_its_block() -> None:
    own = DATA["recovered"].sel(part="mlp").values[1]
    (image,) = axes_titled(FIGURE_OF_ALL, "Patching the MLP: prompt p1").get_images()
    np.testing.assert_array_equal(np.ma.asarray(image.get_array()), own[:-1, : READ[1] + 1].T)
    assert axes_titled(FIGURE_OF_ALL, "Patching the MLP: prompt p1").get_xlabel() == "block (index)"


def test_a_pair_of_one_answer_shows_the_divergence() -> None:
    own = DATA["kl"].sel(part="block").values[3]
    assert_measured("Patching the stream: prompt p3", own, READ[3])


def test_a_prompt_that_is_not_patched_has_no_map() -> None:
    assert [panel.name for panel in FIGURE.panels(RUN)] == [
        "prompt_1",
        "prompt_2",
        "prompt_3",
        "mlp_1",
        "mlp_2",
        "mlp_3",
    ]
    assert "3 of 4 prompts were measured; the others have no source or are too long." in caption_of(FIGURE, RUN)
    nothing = DATA.assign(recovered=DATA["recovered"] * np.nan, kl=DATA["kl"] * np.nan)
    assert FIGURE.panels(replaced(RUN, "patching", nothing), FigureOptions()) == []
