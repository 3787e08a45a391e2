"""The figure of Transformer against MoEUT: what it draws is what the results hold."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from studies.common.across_seeds import differences, means
from studies.sharing.depth_and_accuracy import depth_and_accuracy
from studies.sharing.experiment import in_a_row
from studies.sharing.figure import caption, draw, panels

MODELS = ("recipe", "loss", "seed")
RECIPES, LOSSES, SEEDS = ["plain", "shared"], ["all", "answer"], [4, 5, 6]


@pytest.fixture(scope="module")
def data() -> xr.Dataset:
    rng = np.random.default_rng(0)
    shape = (2, 2, 3)

    def drawn(*more: int) -> np.ndarray:
        return rng.uniform(0.2, 0.8, (*shape, *more))

    accuracy = drawn(2, 3)
    accuracy[..., 1, 0] = np.nan  # the first module has no harder problems
    ratio = drawn(2)
    n_tokens = np.broadcast_to([5, 6], (*shape, 2))
    erasure = drawn(2, 4, 6)
    erasure[1, :, :, :, 3] = np.nan  # the second model has a step less
    erasure[:, :, :, 0, :, 5] = np.nan
    made = xr.Dataset(
        {
            "parameters": (MODELS, np.full(shape, 1234)),
            "n_blocks": (MODELS, np.broadcast_to(np.array([3, 2])[:, None, None], shape)),
            "training_loss": (MODELS, drawn()),
            "accuracy": ((*MODELS, "split", "module"), accuracy),
            "answer_loss": ((*MODELS, "split", "module"), accuracy + 1),
            "commonest": ((*MODELS, "split", "module"), np.broadcast_to([0.11, 0.12, 0.13], accuracy.shape)),
            **{
                name: ((*MODELS, "estimator"), ratio + gap)
                for name, gap in (("ratio", 0), ("ratio_low", -0.1), ("ratio_high", 0.1))
            },
            "score": ((*MODELS, "effect"), drawn(2)),
            "erasure_depth": (MODELS, drawn()),
            "erasure": ((*MODELS, "probe", "boundary", "token"), erasure),
            "piece": ((*MODELS, "probe", "token"), np.broadcast_to(list("Q:4 A1"), (*shape, 2, 6)).astype(object)),
            "n_tokens": ((*MODELS, "probe"), n_tokens),
            "answer_start": ((*MODELS, "probe"), n_tokens - 1),
            "solved": ((*MODELS, "probe"), np.broadcast_to(np.array([True, False])[:, None, None, None], (*shape, 2))),
        },
        {
            "recipe": RECIPES,
            "loss": LOSSES,
            "seed": SEEDS,
            "split": ["interpolate", "extrapolate"],
            "module": ["mul", "div", "all"],
            "estimator": ["cosine", "centre_of_mass"],
            "effect": ["layer", "output"],
            "probe": ["Q: 4 A:", "Q: 44 A:"],
        },
        {"asked": "200"},
    )
    value = in_a_row(made)
    summed_up = (means(value), differences(value, "recipe"), depth_and_accuracy(value, made["n_blocks"]))
    return made.assign({"value": value, **{k: v for one in summed_up for k, v in one.data_vars.items()}})


@pytest.fixture(scope="module")
def figure(data: xr.Dataset) -> Figure:
    return draw(data)


def titled(figure: Figure, title: str) -> list[Axes]:
    axes = [found for found in figure.findobj(Axes) if isinstance(found, Axes)]
    return [ax for ax in axes if title in (ax.get_title("left"), ax.get_title())]


def test_panels(data: xr.Dataset) -> None:
    names = [panel.name for panel in panels(data)]
    assert names == [
        *("accuracy_interpolate", "accuracy_extrapolate", "depth_all", "depth_answer", "differences"),
        *("correlations", "erasure_0", "erasure_1"),
    ]
    mean = float(data.accuracy.sel(recipe="plain", loss="all", split="interpolate", module="mul").mean())
    assert f"plain: all mul {mean:.2f}" in panels(data)[0].alt


def test_the_caption_says_what_is_compared(data: xr.Dataset) -> None:
    said = caption(data)
    assert "plain against shared: 1,234 and 1,234 parameters, 3 and 2 execution steps, 3 seeds." in said
    assert "plain less shared, paired by seed, with Student's 95 % intervals over 3 seeds, wide as they are" in said


def test_every_seed_is_a_mark(data: xr.Dataset, figure: Figure) -> None:
    (ax,) = titled(figure, "Held-out problems like those of training")
    seeds = [line for line in ax.lines if len(line.get_xdata()) == len(SEEDS)]
    assert len(seeds) == 3 * 2 * 2
    own = data.accuracy.sel(split="interpolate", module="mul", recipe="plain", loss="answer")
    np.testing.assert_array_equal(seeds[1].get_xdata(), own)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["mul", "div", "all"]
    guesses = [line.get_segments()[0][0, 0] for line in ax.collections]  # type: ignore[attr-defined]
    np.testing.assert_allclose(guesses, [0.11, 0.12, 0.13])


def test_modules_without_harder_problems_are_left_out(figure: Figure) -> None:
    (ax,) = titled(figure, "Harder problems")
    assert [label.get_text() for label in ax.get_yticklabels()] == ["div", "all"]


def test_depths_have_their_runs_intervals(data: xr.Dataset, figure: Figure) -> None:
    (ax,) = titled(figure, "Effective depth, loss on the answer")
    assert len(ax.collections) == 2 * 2 * 3
    own = data.sel(estimator="cosine", recipe="plain", loss="answer", seed=4)
    first = ax.collections[0].get_segments()[0][:, 0]  # type: ignore[attr-defined]
    np.testing.assert_allclose(first, [own.ratio_low, own.ratio_high])


def test_differences_are_those_of_the_results(data: xr.Dataset, figure: Figure) -> None:
    (ax,) = titled(figure, "Differences, paired by seed")
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert "accuracy/interpolate/mul" in names
    assert "ratio/cosine" in names
    assert not any("loss" in name or "score" in name for name in names)
    own = data.difference.sel(loss="all", quantity="accuracy/interpolate/mul")
    np.testing.assert_allclose(ax.lines[0].get_xdata(), own)


def test_maps_have_a_models_own_boundaries_and_tokens(data: xr.Dataset, figure: Figure) -> None:
    plain, shared = (
        titled(figure, f"{name}, loss on all tokens ({said})") for name, said in zip(RECIPES, ("solved", "not solved"))
    )
    assert [ax.images[0].get_array().shape for ax in plain] == [(4, 4), (5, 4)]
    assert [ax.images[0].get_array().shape for ax in shared] == [(4, 3), (5, 3)]
    erasure = data.erasure.sel(recipe="shared", loss="all", seed=4).isel(probe=1)[:3, :5]
    np.testing.assert_array_equal(shared[1].images[0].get_array(), erasure.T)
    assert [label.get_text() for label in shared[1].get_yticklabels()] == ["Q", ":", "4", "␣", "A"]


def test_correlations_are_drawn_over_all_models_and_within(data: xr.Dataset, figure: Figure) -> None:
    (ax,) = titled(figure, "Depth and accuracy on harder problems")
    marks = [line for line in ax.lines if line.get_marker() == "D"]
    drawn = [float(line.get_xdata()[0]) for line in marks]
    np.testing.assert_allclose(drawn, data.correlation.values.ravel())
    assert [tick.get_text() for tick in ax.get_yticklabels()] == [
        *("ratio/cosine", "ratio/centre of mass", "score/layer", "score/output", "erasure depth")
    ]
    assert "12 models" in ax.get_xlabel()


def test_without_correlations_there_is_no_such_panel(data: xr.Dataset) -> None:
    few = data.assign(correlation=data.correlation * np.nan)
    assert "correlations" not in [panel.name for panel in panels(few)]
