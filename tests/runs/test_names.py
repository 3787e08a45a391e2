"""Runs and models are called by no more than tells them apart, the same wherever they are shown."""

from __future__ import annotations

from pathlib import Path

import pytest
import xarray as xr
from support.synthetic_runs import identity

from bathyscope.runs.names import model_names, run_names
from bathyscope.runs.run import Run


def named(*models_and_data: tuple[str, str]) -> list[str]:
    """Names of runs of these models on these data sets."""
    runs = [Run(xr.DataTree(), {"identity": identity(model=m, dataset=d)}) for m, d in models_and_data]
    return run_names(runs)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ([("Qwen/one", "gsm8k:10")], ["one on gsm8k:10"]),
        ([("Qwen/one", "gsm8k:10"), ("runs/two", "gsm8k:10")], ["one", "two"]),
        ([("Qwen/one", "gsm8k:10"), ("Qwen/one", "math:5")], ["gsm8k:10", "math:5"]),
        ([("Qwen/one", "gsm8k:10"), ("runs/two", "math:5")], ["one on gsm8k:10", "two on math:5"]),
        ([("a/one", "gsm8k:10"), ("a/two", "gsm8k:10"), ("a/one", "gsm8k:10")], ["one (1)", "two", "one (2)"]),
        ([("a/one", "gsm8k:10"), ("b/one", "gsm8k:10")], ["a/one", "b/one"]),
        ([], []),
    ],
)
def test_runs_are_called_by_what_tells_them_apart(given: list[tuple[str, str]], names: list[str]) -> None:
    assert named(*given) == names


def in_memory(folder: str | None = None, **changes: object) -> Run:
    path = None if folder is None else Path(folder)
    return Run(xr.DataTree(), {"identity": identity(model="LlamaForCausalLM", dataset="texts", **changes)}, path)


@pytest.mark.parametrize(
    ("runs", "names"),
    [
        (
            [in_memory(weight_hash="0123456789"), in_memory(weight_hash="abcdef0123")],
            ["LlamaForCausalLM (weights 01234567)", "LlamaForCausalLM (weights abcdef01)"],
        ),
        (
            [in_memory(schedule="drop:3", weight_hash="1" * 9), in_memory(weight_hash="2" * 9)],
            ["LlamaForCausalLM (drop:3)", "LlamaForCausalLM (own order)"],
        ),
        (
            [in_memory(seed=0), in_memory(seed=7)],
            ["LlamaForCausalLM (seed 0)", "LlamaForCausalLM (seed 7)"],
        ),
        (
            [in_memory("runs/first"), in_memory("runs/second")],
            ["LlamaForCausalLM (first)", "LlamaForCausalLM (second)"],
        ),
        (
            [in_memory("runs/slow/step-00000600", weight_hash="1" * 9), in_memory("runs/fast/step-00000600")],
            ["LlamaForCausalLM (slow/step-00000600)", "LlamaForCausalLM (fast/step-00000600)"],
        ),
        (
            [in_memory("runs/first"), in_memory(dtype="bfloat16")],
            ["LlamaForCausalLM (first)", "LlamaForCausalLM (in memory)"],
        ),
        ([in_memory(), in_memory()], ["LlamaForCausalLM (1)", "LlamaForCausalLM (2)"]),
    ],
)
def test_runs_of_models_in_memory_say_what_tells_them_apart(runs: list[Run], names: list[str]) -> None:
    assert run_names(runs) == names


def test_models_are_called_without_their_folders_where_that_tells_them_apart() -> None:
    assert model_names(["/data/models/one", "two/"]) == ["one", "two"]
    assert model_names(["a/one", "a/one", "b/two"]) == ["one", "one", "two"]
    assert model_names(["a/one", "b/one", "b/two"]) == ["a/one", "b/one", "two"]
    assert model_names(["/"]) == ["/"]
