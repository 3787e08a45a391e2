"""A file of mixed types of a family that is more than its header says: a tiny Gemma 3."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from support import naive
from support.gguf_gemma3 import BLOCKS, WINDOW, config, write_gemma3
from transformers import Gemma3ForCausalLM

import bathyscope
from bathyscope.model import Model

IDS = [[5, 80, 200, 33, 261, 7, 90, 12, 44, 301, 2, 19, 77], [9, 17, 310, 4, 250, 66, 128, 31, 8, 95]]


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, torch.Tensor]]:
    """The file, and the numbers that it stands for; read only."""
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    return path, write_gemma3(path)


@pytest.fixture(scope="module")
def model(state: tuple[Path, dict[str, torch.Tensor]]) -> Model:
    return bathyscope.load(state[0])


def plain(state: dict[str, torch.Tensor], **changes: object) -> Gemma3ForCausalLM:
    """transformers' own model of the numbers, which never saw the file."""
    hf = Gemma3ForCausalLM(config(**changes)).eval()
    hf.load_state_dict(state)
    return hf


@torch.no_grad()
def logits(hf: torch.nn.Module) -> torch.Tensor:
    return hf(torch.tensor(IDS[:1])).logits


def test_every_type_is_unpacked_to_the_numbers_of_its_formula(
    model: Model, state: tuple[Path, dict[str, torch.Tensor]]
) -> None:
    loaded = model.hf.state_dict()
    assert set(loaded) == set(state[1])
    for name, value in state[1].items():
        assert torch.equal(loaded[name], value), name
    assert model.gguf is not None
    assert set(model.gguf.identity()["quantisation"].split(", ")) == {"Q8_0", "Q5_0", "Q4_K", "Q6_K", "F32"}


def test_it_runs_as_the_family_that_its_header_only_hints_at(
    model: Model, state: tuple[Path, dict[str, torch.Tensor]]
) -> None:
    """Which blocks look back how far, and by which rotary base, is in no key of the file."""
    assert len(IDS[0]) > 2 * WINDOW
    expected = logits(plain(state[1]))
    assert torch.equal(logits(model.hf), expected)
    types = config().layer_types
    exchanged = {
        "full_attention": {"rope_type": "default", "rope_theta": 1e4},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e6},
    }
    others: list[dict[str, object]] = [
        {"sliding_window": WINDOW + 1},
        {"layer_types": [*types[:4], types[5], types[4], *types[6:]]},
        {"rope_parameters": exchanged},
    ]
    for change in others:
        # what is looked at here decides the logits, so that equal ones say something
        assert (logits(plain(state[1], **change)) - expected).abs().max() > 1e-3, change


def test_a_survey_of_the_file_is_the_naive_one(model: Model, state: tuple[Path, dict[str, torch.Tensor]]) -> None:
    hf = plain(state[1])
    blocks = naive.blocks_of(hf)
    run = bathyscope.survey(model, IDS, ["residual", "drop"], progress=False)
    for row, ids in enumerate(IDS):
        norms = run["residual"]["norm_resid"].isel(prompt=row).values
        states = naive.boundaries(hf, blocks, ids).double()
        assert norms == pytest.approx(states.norm(dim=-1).mean(-1).numpy(), rel=1e-5)
        base, _ = naive.run_schedule(hf, blocks, ids, list(range(BLOCKS)))
        for dropped in range(BLOCKS):
            without, _ = naive.run_schedule(hf, blocks, ids, naive.drop_order(BLOCKS, dropped))
            expected = float(naive.kl(base[:-1], without[:-1]).mean())
            assert float(run["drop"]["kl"][row, dropped]) == pytest.approx(expected, rel=1e-4, abs=1e-6)
    # the embedding is scaled before the first block, and tied to a readout that is not
    embedding = state[1]["model.embed_tokens.weight"]
    scaled = embedding[torch.tensor(IDS[0])].norm(dim=-1) * 256**0.5
    assert run["residual"]["norm_resid"].values[0, 0] == pytest.approx(float(scaled.mean()), rel=1e-5)
