"""The cells of all peers, computed by bathyscope, each with its CPU time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

import bathyscope
from bathyscope.core.arrays import FloatArray
from bathyscope.model import Model
from bathyscope.surgery.choosing.influence import measure_influence
from bathyscope.surgery.choosing.pruning import units_of
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.engine import Wavefront

Request = Mapping[str, Any]


def survey(model: Model, request: Request, measure: str, prompts: str = "prompts") -> Any:
    """Return one measure's dataset of the request's prompts."""
    return bathyscope.survey(model, request[prompts], [measure], progress=False)[measure]


def mean(dataset: Any, name: str) -> FloatArray:
    """Return the mean over all tokens of all prompts; each prompt's value is a mean over its own."""
    array = dataset[name]
    # drop leaves the last token of a prompt out, which has no next one
    weights = dataset["n_averaged"] if "n_averaged" in dataset else dataset["n_tokens"]
    return np.asarray((array * weights).sum("prompt") / weights.sum())


def residual_norm(model: Model, request: Request) -> FloatArray:
    return mean(survey(model, request, "residual"), "norm_resid")


def lens_kl(model: Model, request: Request) -> FloatArray:
    return mean(survey(model, request, "lens"), "kl_lens_final")


def lens_forward_kl(model: Model, request: Request) -> FloatArray:
    return mean(survey(model, request, "lens"), "kl_final_lens")


def lens_entropy(model: Model, request: Request) -> FloatArray:
    # bits here, nats there
    return mean(survey(model, request, "lens"), "entropy") * np.log(2)


def kl_without(model: Model, request: Request) -> FloatArray:
    return mean(survey(model, request, "drop", "few"), "kl")


def top1_without(model: Model, request: Request) -> FloatArray:
    return mean(survey(model, request, "drop", "few"), "top1_agreement")


def skip_effects(model: Model, request: Request) -> FloatArray:
    # later tokens come along: a measure of the same survey, which the time includes
    effects = survey(model, request, "skip", "few")["effect_all"].sel(part="block", reduction="max")
    skipped, block = np.triu_indices(model.n_blocks, 1)
    return np.asarray(effects.transpose("prompt", "skipped", "block").values[:, skipped, block])


def integrated_gradients(model: Model, request: Request) -> FloatArray:
    prompt = bathyscope.Prompt(ids=request["sum"]["ids"], answer_tokens=request["sum"]["answer_tokens"])
    run = bathyscope.survey(
        model,
        [prompt],
        ["integrated_gradients"],
        progress=False,
        integrated_gradients={"sites": ("block",), "nodes": request["nodes"], "refine": False},
    )
    attribution = run["integrated_gradients"]["attribution"].sel(site="block", block=request["gradient_block"])
    return np.asarray(attribution.isel(prompt=0).values)


def tokens_per_pass(model: Model, request: Request) -> FloatArray:
    advice = bathyscope.exit_advice(
        model,
        request["prompts"],
        new_tokens=request["new_tokens"],
        longest=request["draft"],
        resamples=100,
        progress=False,
    )
    return np.asarray(advice.data["tokens_per_pass"].sel(draft=request["draft"], exit=request["exits"]).values)


def similarity(model: Model, request: Request) -> FloatArray:
    return np.asarray(survey(model, request, "cka")["cka"].sel(tokens="last").values)


def block_influence(model: Model, request: Request) -> FloatArray:
    batches = [Batch.of([ids], model.device) for ids in request["prompts"]]
    scores = measure_influence(Wavefront(model.anatomy, tails=model.checks.tails), batches, units_of(model, ("block",)))
    return np.array(list(scores.units.values()))


def influence_of_prompts_alike(model: Model, request: Request) -> FloatArray:
    """Return what optipfair computes: a mean over prompts of each prompt's mean over its tokens."""
    return np.mean([block_influence(model, {"prompts": [ids]}) for ids in request["prompts"]], axis=0)


def angular_distance(model: Model, request: Request) -> FloatArray:
    batches = [Batch.of([ids], model.device) for ids in request["prompts"]]
    scores = measure_influence(Wavefront(model.anatomy, tails=model.checks.tails), batches, units_of(model, ("block",)))
    count = request["window"]
    return np.diagonal(scores.angles, count)


def log_likelihoods(model: Model, request: Request) -> FloatArray:
    score = evaluate(model, request)
    return np.array([value for document in score["documents"] for value in document["loglikelihoods"]])


def accuracy(model: Model, request: Request) -> FloatArray:
    return np.array([evaluate(model, request)["metrics"]["acc"]["value"]])


def evaluate(model: Model, request: Request) -> Any:
    """Return the harness's own task of the request, with its documents from the request's file."""
    evaluation = bathyscope.evaluate(
        model,
        ["arc_easy"],
        [],
        data={"arc_easy": request["task_file"]},
        limit=request["limit"],
        batch_size=4,
    )
    return evaluation.scores[0]


CELLS: Final[Mapping[str, Callable[[Model, Request], FloatArray]]] = {
    "residual norm": residual_norm,
    "logit lens KL": lens_kl,
    "KL without a block": kl_without,
    "top-1 without a block": top1_without,
    "lens entropy": lens_entropy,
    "lens forward KL": lens_forward_kl,
    "skip effects": skip_effects,
    "integrated gradients": integrated_gradients,
    "tokens for each pass": tokens_per_pass,
    "CKA of last tokens": similarity,
    "block influence": block_influence,
    "block influence, prompts alike": influence_of_prompts_alike,
    "angular distance": angular_distance,
    "angular distance, by its model": angular_distance,
    "log-likelihoods of answers": log_likelihoods,
    "accuracy": accuracy,
}
"""By the names that peers' scripts use."""


def answer(model: Model, request: Request, cell: str) -> dict[str, Any]:
    """Return the values of a cell and the CPU time that they took."""
    cpu = time.process_time()
    values = CELLS[cell](model, request)
    return {"values": np.asarray(values, np.float64).tolist(), "cpu_seconds": time.process_time() - cpu}
