from __future__ import annotations

import numpy as np
import pytest
import torch

from bathyscope.lab.evaluate import held_out_losses, row_loss, rows
from bathyscope.lab.model import build_model
from bathyscope.lab.recipe import ModelShape

SHAPE = ModelShape(blocks=2, width=32, heads=4, kv_heads=2, mlp_width=48, context=64, vocabulary=300)
BOS_ID = 0


def test_windows_predict_every_token_of_the_stream_once() -> None:
    stream = np.arange(100, 160, dtype=np.uint16)
    windows = torch.cat([rows(stream, start, 2, 10, BOS_ID) for start in (0, 20, 40)])
    assert windows.shape == (6, 11)
    assert (windows[:, 0] == BOS_ID).all()
    assert windows[:, 1:].flatten().tolist() == stream.tolist()


def test_windows_wrap_round_at_the_end_of_the_stream() -> None:
    assert rows(np.array([5, 6, 7], dtype=np.uint16), 2, 1, 4, BOS_ID).tolist() == [[BOS_ID, 7, 5, 6, 7]]


def test_loss_is_the_models_own() -> None:
    model = build_model(SHAPE, seed=1, bos_id=0, eos_id=1)
    # More tokens than one chunk of the readout, and not a multiple of it.
    batch = torch.randint(0, 300, (9, 63), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        ours = row_loss(model.model, model.lm_head, batch)
        theirs = model(input_ids=batch, labels=batch).loss
    assert float(ours) == pytest.approx(float(theirs), rel=1e-6)


def test_held_out_loss_is_the_mean_over_whole_windows() -> None:
    model = build_model(SHAPE, seed=1, bos_id=0, eos_id=1)
    stream = np.random.default_rng(0).integers(2, 300, 70).astype(np.uint16)
    given = held_out_losses(model, {"books": stream}, context=32, bos_id=BOS_ID)
    with torch.no_grad():
        expected = [
            float(model(input_ids=window[None], labels=window[None]).loss)
            for window in (rows(stream, 0, 1, 32, BOS_ID)[0], rows(stream, 32, 1, 32, BOS_ID)[0])
        ]
    assert given == {"books": pytest.approx(np.mean(expected), rel=1e-5)}


def test_fresh_weights_depend_on_the_seed_alone_and_start_near_uniform() -> None:
    first, again, other = (build_model(SHAPE, seed, bos_id=0, eos_id=1) for seed in (1, 1, 2))
    assert torch.equal(first.lm_head.weight, again.lm_head.weight)
    assert not torch.equal(first.lm_head.weight, other.lm_head.weight)
    assert first.lm_head.weight is first.model.embed_tokens.weight
    stream = np.random.default_rng(0).integers(2, 300, 640).astype(np.uint16)
    assert held_out_losses(first, {"x": stream}, 64, BOS_ID)["x"] == pytest.approx(np.log(300), abs=0.1)
