"""The landing page shows the model next to its untrained controls, and the table of peers says what differs."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
import xarray as xr
from support import zoo
from support.fresh import fresh_module

import bathyscope
from studies.real_model.claims import CLAIMS
from studies.real_model.landing import ROWS, landing_markdown

PEERS = Path(__file__).parents[3] / "benchmarks" / "peers"


def script(name: str) -> ModuleType:
    """A script of the peers' benchmark as a module."""
    return fresh_module(PEERS / f"{name}.py", f"peers_{name}")


def dropped(kl: list[float], agreement: float) -> xr.Dataset:
    blocks = len(kl)
    return xr.Dataset(
        {
            "drop.kl": (("prompt", "dropped"), [kl, kl]),
            "drop.top1_agreement": (("prompt", "dropped"), np.full((2, blocks), agreement)),
            "n_tokens": (("prompt",), [10, 30]),
        },
        attrs={"blocks": blocks},
    )


def test_the_landing_page_has_the_model_next_to_its_controls() -> None:
    assert set(ROWS) <= {claim.key for claim in CLAIMS}
    stored = {
        "smollm2": {"drop": dropped([6.0, *[2.0] * 8, 3.0], 0.75)},
        "untrained_0": {"drop": dropped([2.0] * 10, 0.25)},
        "untrained_1": {"drop": dropped([4.0, *[2.0] * 9], 0.5)},
    }
    *lines, blank, rests_on = landing_markdown({"smollm2": stored}).splitlines()
    assert len(lines) == 2 + len(ROWS)
    assert blank == ""
    assert rests_on == (
        "Intervals are of 95 %, over prompts. Prompts of a row: SmolLM2 2, untrained 2, in 2 of the 6 rows fewer than "
        "3 models; Gemma 3 –, untrained –."
    )
    cells = {line.split("|")[1].strip(): [cell.strip() for cell in line.split("|")[2:6]] for line in lines}
    agreement, first = cells[ROWS["drop_middle"]], cells[ROWS["drop_first"]]
    assert (agreement[0][:4], *agreement[1:]) == ("0.75", "0.25 to 0.50", "–", "–")
    assert (first[0][:4], first[1]) == ("3.00", "1.00 to 2.00")
    assert cells[ROWS["mlp_grows"]] == ["–"] * 4


def test_the_table_of_peers_says_values_gap_and_time(tmp_path: Path) -> None:
    table = script("table")
    answers = {
        "first__tiny": {
            "package": "first",
            "version": "1.2",
            "model": "tiny",
            "cells": {
                "norm": {
                    "values": [1.0, 3.0],
                    "cpu_seconds": 4.0,
                    "ours": {"values": [1.0, 3.5], "cpu_seconds": 2.0},
                },
                "angle": {
                    "values": [2.0],
                    "cpu_seconds": 1.0,
                    "ours": {"values": [2.0], "cpu_seconds": 2.0},
                    "in_float64": {"gap": 4e-9, "relative": 2e-9},
                },
                "lens": {"error": "ValueError: no lens", "ours": {"values": [1.0], "cpu_seconds": 1.0}},
            },
        },
        "second__tiny": {"package": "second", "version": "", "model": "tiny", "error": "no wheel", "cells": {}},
    }
    for name, answer in answers.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(answer), encoding="utf-8")
    page = tmp_path / "peers.md"
    page.write_text(f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n", encoding="utf-8")
    table.write_table(tmp_path, page)
    text = page.read_text(encoding="utf-8")
    assert "| first 1.2 | tiny | norm | 2 | 2 | 2.25 | 5.0e-01 | 1.7e-01 | – | 2.00 |" in text
    assert "| first 1.2 | tiny | angle | 1 | 2 | 2 | 0.0e+00 | 0.0e+00 | 2.0e-09 | 0.50 |" in text
    assert "| first 1.2 | tiny | lens | – | ValueError: no lens |" in text
    assert "| second | tiny | – | – | no wheel |" in text
    assert "old" not in text
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")


def test_gaps_in_float64_are_added_to_what_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PEERS))
    run = script("run")
    stored = {"cells": {"norm": {"values": [1.0]}, "lens": {"error": "none"}}}
    norm = {"values": [2.0, -4.0], "ours": {"values": [2.0, -4.5]}}
    exact = {"package": "first", "cells": {"norm": norm, "lens": {"error": "none"}}}
    found = run.with_gaps_in_float64(stored, exact)
    assert found["cells"]["norm"] == {"values": [1.0], "in_float64": {"gap": 0.5, "relative": 0.125}}
    assert found["cells"]["lens"] == {"error": "none"}
    with pytest.raises(RuntimeError, match="first gave no norm in float64: too wide"):
        run.with_gaps_in_float64(stored, {"package": "first", "cells": {"norm": {"error": "too wide"}}})
    with pytest.raises(RuntimeError, match="first gave no answer in float64: no memory"):
        run.with_gaps_in_float64(stored, {"package": "first", "error": "no memory"})


def test_our_cells_are_those_of_plain_forwards() -> None:
    ours = script("ours")
    hf = zoo.entry("llama").build()
    model = bathyscope.load(hf)
    prompts = zoo.prompts(hf, (9, 12, 7, 11))
    request = {"prompts": prompts, "window": 2}
    norms, influences, angles = [], [], []
    with torch.no_grad():
        for ids in prompts:
            # the last of transformers' states is normed, so that only boundaries before it are compared
            states = torch.stack(hf(torch.tensor([ids]), output_hidden_states=True).hidden_states[:-1])[:, 0].double()
            norms.append(states.norm(dim=-1))
            influences.append(1 - torch.cosine_similarity(states[:-1], states[1:], dim=-1))
            cosines = torch.cosine_similarity(states[:-2, -1], states[2:, -1], dim=-1)
            angles.append(cosines.arccos() / torch.pi)
    blocks = model.n_blocks
    assert ours.residual_norm(model, request)[:blocks] == pytest.approx(torch.cat(norms, 1).mean(1).numpy(), rel=1e-5)
    expected = torch.cat(influences, 1).mean(1).numpy()
    assert ours.block_influence(model, request)[: blocks - 1] == pytest.approx(expected, rel=1e-4, abs=1e-6)
    turned = ours.angular_distance(model, request)[: blocks - 2]
    assert turned == pytest.approx(torch.stack(angles).mean(0).numpy(), rel=1e-4)
