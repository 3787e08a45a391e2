from __future__ import annotations

import numpy as np
import pytest
import torch
from support import waves, zoo
from support.artists import axes_titled, caption_of, curve, drawn_from
from support.synthetic import replaced
from support.synthetic_tokens import complete_run

import bathyscope
from bathyscope.pages.figures.of.attention_locality import FIGURE
from bathyscope.pages.figures.options import FigureOptions

BY_TOKENS = FigureOptions(weighting="tokens")
RUN = complete_run(L=5)
DATA = RUN["attention_locality"]
LENGTHS = DATA["n_tokens"].values
PAIRS = sum(LENGTHS - i for i in range(1, 6))


def test_a_line_is_the_mean_over_the_queries_of_all_prompts() -> None:
    """Of a prompt of 18 tokens two have a token 16 before them; those of one of 40 weigh twelve times as much."""
    model = zoo.build("llama", attn="eager")
    prompts = zoo.prompts(model, (18, 40))
    run = bathyscope.survey(waves.loaded("llama"), prompts, ["attention_locality"], progress=False)
    weights = []
    for ids in prompts:
        with torch.no_grad():
            attention = torch.stack(model(torch.tensor([ids]), output_attentions=True).attentions)[:, 0]
        weights.append(attention.diagonal(-16, 2, 3).mean(1))
    _, y = curve(axes_titled(drawn_from(FIGURE, run, BY_TOKENS), "Attention to the token i before"), "i = 16")
    np.testing.assert_allclose(y, torch.cat(weights, 1).mean(1), rtol=1e-4)


def test_heads_are_shown_by_the_total_over_five_tokens() -> None:
    (image,) = axes_titled(drawn_from(FIGURE, RUN, BY_TOKENS), "Each head's").get_images()
    mean = np.tensordot(PAIRS, 5 * DATA["head_prev5"].values, 1) / PAIRS.sum()
    np.testing.assert_allclose(image.get_array(), mean)
    assert image.get_clim() == (0, pytest.approx(mean.max()))
    by_prompt = drawn_from(FIGURE, RUN, FigureOptions(weighting="prompts"))
    (image,) = axes_titled(by_prompt, "Each head's").get_images()
    np.testing.assert_allclose(image.get_array(), 5 * DATA["head_prev5"].values.mean(0))


def test_blocks_without_attention_are_named_and_blank() -> None:
    run = replaced(RUN, "attention_locality", DATA.where(DATA["block"].isin([0, 3, 4])))
    assert "Blocks 1, 2 show no attention weights." in caption_of(FIGURE, run)
    assert "show no" not in caption_of(FIGURE, RUN)
    (image,) = axes_titled(drawn_from(FIGURE, run, BY_TOKENS), "Each head's").get_images()
    assert image.get_array().mask.all(1).tolist() == [False, True, True, False, False]
