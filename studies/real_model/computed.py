"""What the claims need and no survey stores by itself: reduced surveys, probes, and benchmarks.

Each function measures one model and returns what is stored: variables along ``prompt``, which intervals resample. It
stands for what is drawn at random: prompts, pairs of prompts, words, rows of a probe, or documents of a benchmark.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import xarray as xr

import bathyscope
from bathyscope import Model
from studies.common.arrays import FloatArray
from studies.real_model.sources import benchmark_files, exchanged_capitals, two_hop_pairs

WIC_STRENGTH: Final = 1e-3
"""Inverse penalty of the probe: of few rows of 1,152 features a strong one, fixed before it was measured."""
NODES: Final = 12
"""Of the quadrature; ``completeness`` says what it misses."""


def two_hops(model: Model, data: Path, count: int) -> xr.Dataset:
    """Depth scores of two-hop questions and of their first hops, pair by pair."""
    run = bathyscope.survey(model, two_hop_pairs(data, count), ["depth_score"], progress=False)
    depth_score = run["depth_score"]
    scores = depth_score["prompt_score_layer"].sel(reduction="mean").values
    # the questions of a pair follow one another, the one of two hops first
    both, first = scores[0::2], scores[1::2]
    assert (depth_score["hops"].values[0::2] == 2).all()
    return _stored({"depth_score.hops_2": both, "depth_score.hops_1": first}, run.identity)


def erased_sums(model: Model, data: Path, count: int) -> xr.Dataset:
    """Effects of erasing what a token has at a boundary, of sums; and which tokens are digits of the two numbers."""
    run = bathyscope.survey(model, f"addition:{count}?digits=3", ["erasure"], progress=False)
    erasure = run["erasure"]
    variables: dict[str, Any] = {
        f"erasure.{name}": (erasure[name].dims, np.asarray(erasure[name].values, np.float32))
        for name in ("effect", "answer_start")
    }
    is_operand = np.zeros((erasure.sizes["prompt"], erasure.sizes["token"]), np.int8)
    for row, prompt, start in zip(is_operand, run.prompts, erasure["answer_start"].values, strict=True):
        texts = [model.tokenizer.decode([token]).strip() for token in prompt.ids[: int(start)]]
        row[: len(texts)] = [text.isdigit() for text in texts]
    variables["erasure.is_operand"] = (("prompt", "token"), is_operand)
    variables["n_tokens"] = (("prompt",), erasure["n_tokens"].values)
    identity = {"prompts": run.identity.prompts, "prompt_hash": run.identity.prompt_hash}
    return xr.Dataset(variables).assign_attrs(identity)


def gradients(model: Model, data: Path, count: int) -> xr.Dataset:
    """Absolute integrated gradients of sums' answers, summed over tokens, by block."""
    run = bathyscope.survey(
        model,
        f"addition:{count}?digits=1",
        ["integrated_gradients"],
        progress=False,
        integrated_gradients={"sites": ("block",), "nodes": NODES, "refine": False},
    )
    gradients_by_block = run["integrated_gradients"].sel(site="block")
    attribution = np.abs(gradients_by_block["attribution"].values)
    missed = np.abs(gradients_by_block["completeness"].values)
    return _stored(
        {
            "integrated_gradients.absolute": np.nansum(attribution, axis=-1),
            "integrated_gradients.completeness": missed,
        },
        run.identity,
        last="block",
    )


def capitals(model: Model, data: Path, count: int) -> xr.Dataset:
    """How far patching the last token moves a question to another one's answer, by boundary and pair of questions."""
    prompts = exchanged_capitals(model.tokenizer, count)
    run = bathyscope.survey(model, prompts, ["patching"], progress=False, patching={"pairs": "pair"})
    patching = run["patching"].sel(part="block")
    read_at = xr.DataArray(patching["read_at"].values, dims="prompt")
    change = patching["change"].isel(token=read_at)
    moved = (change.sel(answer="source") - change.sel(answer="target")).transpose("prompt", "boundary").values
    log_p = patching["log_p"]
    gaps = log_p.sel(answer="target") - log_p.sel(answer="source")
    distance = (gaps.sel(read_in="target") - gaps.sel(read_in="source")).values
    # two questions that are patched from each other are one pair
    return _stored(
        {
            "patching.moved": moved[0::2] + moved[1::2],
            "patching.distance": distance[0::2] + distance[1::2],
        },
        run.identity,
        last="boundary",
    )


def subjoiner_words(model: Model, data: Path, count: int) -> xr.Dataset:
    """Attention of the last token to the three before it, in words of four tokens and of one, by head."""
    words = bathyscope.probe(
        "subjoiner", model, data / "text/wikitext2_valid.txt", count=count, resamples=100, progress=False
    )
    attention = words["attention"].transpose("word", "block", "head").values
    variables = {
        "subjoiner.attention": (("prompt", "block", "head"), attention.astype(np.float32)),
        "subjoiner.split": (("prompt",), words["split"].values.astype(np.int8)),
        "n_tokens": (("prompt",), np.ones(len(attention), np.int64)),
    }
    return xr.Dataset(variables).assign_attrs(prompts=len(attention), prompt_hash="")


def word_senses(model: Model, data: Path, count: int) -> xr.Dataset:
    """Which rows of WiC a probe classifies correctly, by boundary; as many rows train it as judge it."""
    wic = data / "wic"
    probe = bathyscope.probe(
        "wic",
        model,
        _rows(wic / "train.jsonl", count),
        _rows(wic / "validation_500.jsonl", count),
        C=WIC_STRENGTH,
        resamples=100,
        progress=False,
    )
    correct = probe["correct"].isel(features=0).transpose("row", "boundary").values
    dataset = _stored({"wic.correct": correct}, None, last="boundary")
    return dataset.assign_attrs(prompts=len(correct), majority=float(probe["majority"]))


def _rows(file: Path, count: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()[:count]]


def benchmark_answers(model: Model, data: Path, count: int) -> xr.Dataset:
    """Which documents are answered correctly with all blocks, and without every third block of the middle 80 %."""
    files = benchmark_files(data)
    edge = round(model.n_blocks / 10)
    schedules = [f"drop:{block}" for block in range(edge, model.n_blocks - edge, 3)]
    with TemporaryDirectory() as folder:
        evaluation = bathyscope.evaluate(model, list(files), schedules, data=files, limit=count, out=folder)
    correct = evaluation.data["correct"].transpose("task", "document", "schedule")
    values = correct.sel(schedule=["standard", *schedules]).values.reshape(-1, 1 + len(schedules))
    variables = {"benchmarks.full": values[:, 0], "benchmarks.without": values[:, 1:]}
    return _stored(variables, None, last="schedule").assign_attrs(prompts=len(values))


def _stored(variables: dict[str, FloatArray], identity: Any, last: str = "") -> xr.Dataset:
    """Variables of one dimension, or two of which the second is ``last``; every prompt counts the same."""
    data: dict[str, Any] = {
        name: (("prompt", last)[: values.ndim], np.asarray(values, np.float32)) for name, values in variables.items()
    }
    prompts = len(next(iter(variables.values())))
    data["n_tokens"] = (("prompt",), np.ones(prompts, np.int64))
    attributes = {"prompts": prompts, "prompt_hash": "" if identity is None else identity.prompt_hash}
    return xr.Dataset(data).assign_attrs(attributes)
