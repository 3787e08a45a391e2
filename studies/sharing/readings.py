"""What is read from one model of the trained comparison: its depths, and maps of the four problems of the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import xarray as xr
from bathyscope_lab.batches import encode
from bathyscope_lab.evaluate import answer_scores
from bathyscope_lab.tokenizer import special_ids

from bathyscope import Model, Prompt, Run, survey
from bathyscope.extend.prompts import Problem
from bathyscope.extend.statistics import mean_interval
from studies.common.erasure import persistence

MEASURES: Final = ("effective_depth", "depth_score", "erasure")
EFFECTS: Final = ("layer", "output")
"""Of leaving out a block, that depth scores are of."""
PROBES: Final = (
    Problem("Q: What is ((-14)/(-6))/(1162/(-4980))? A:", "-10"),
    Problem("Q: What is the value of -24 + -10 + 22 + 1 + 1 + 25? A:", "15"),
    Problem("Q: What is 1 - 3 - (63 + 7 - 60)? A:", "-12"),
    Problem("Q: (10/3)/((-8)/16)*(-90)/(-75) A:", "-8"),
)
"""The problems that csordas2025 looks at one by one, with right answers: the paper gives -15 for the second."""


def depths(model: Model, prompts: str, out: Path, progress: bool) -> xr.Dataset:
    """Effective depths, depth scores and erasure depth on held-out problems, with intervals over prompts.

    Returns:
        ``depth``, ``depth_low``, ``depth_high`` in blocks, ``ratio``, ``ratio_low``, ``ratio_high``, ``depth_reason``
        (estimator); ``score``, ``score_low``, ``score_high`` (effect) in blocks: the depth score of all prompts;
        ``erasure_depth``, ``erasure_depth_low``, ``erasure_depth_high`` in boundaries: at how many a token of the
        question matters (``persistence``), the mean over prompts.
    """
    run = survey(model, prompts, MEASURES, out=out, progress=progress, erasure={"max_tokens": None})
    own = run["effective_depth"]
    found = {"depth": own["depth"], "depth_low": own["ci_low"], "depth_high": own["ci_high"]}
    ratios = {name.replace("depth", "ratio"): value / model.n_blocks for name, value in found.items()}
    data = xr.Dataset({**found, **ratios, "depth_reason": own["reason"]}).drop_attrs()
    data = data.assign(_scores(run).data_vars).assign_coords(effect=list(EFFECTS))
    return data.assign(_erasure_depth(run["erasure"]))


def _erasure_depth(erasure: xr.Dataset) -> dict[str, float]:
    values = persistence(erasure)
    values = values[np.isfinite(values)]
    mean = float(values.mean()) if values.size else np.nan
    low, high = mean_interval(values, limits=(0.0, np.inf))
    return {"erasure_depth": mean, "erasure_depth_low": low, "erasure_depth_high": high}


def _scores(run: Run) -> xr.Dataset:
    # problems of arithmetic have no label of difficulty, and are one level
    own = run["depth_score"].sel(reduction="mean").squeeze("level")
    scores = {
        "score": [float(own[f"score_{name}"]) for name in EFFECTS],
        **{f"score_{end}": own[f"ci_{end}"].sel(score=list(EFFECTS)).values for end in ("low", "high")},
    }
    return xr.Dataset({name: ("effect", np.asarray(values)) for name, values in scores.items()})


def probe_maps(model: Model, reference: str, out: Path, progress: bool) -> xr.Dataset:
    """Erasure maps of the four problems that csordas2025 looks at one by one.

    Args:
        reference: prompts whose mean residual stream takes the erased one's place.

    Returns:
        ``erasure`` (probe, boundary, token): change of the answer's probabilities, NaN beyond a problem's end;
        ``piece`` (probe, token): the tokens as texts; ``answer_start``, ``n_tokens`` (probe); ``solved`` (probe):
        whether the answer and the end after it are what greedy decoding gives.
    """
    asked = [Prompt(text=one.text, answer=one.answer) for one in (problem.example() for problem in PROBES)]
    options = {"reference": reference, "max_tokens": None}
    own = survey(model, asked, ["erasure"], out=out, progress=progress, erasure=options)["erasure"]
    dims = {"erasure": ("prompt", "boundary", "token"), "piece": ("prompt", "token")}
    values = {"erasure": own["effect"], "piece": own["piece"]}
    data = {name: (("probe", *dims[name][1:]), values[name].transpose(*dims[name]).values) for name in dims}
    plain = {name: ("probe", own[name].values) for name in ("answer_start", "n_tokens")}
    coords = {"boundary": own["boundary"].values, "token": own["token"].values}
    right = {"solved": ("probe", [_is_right(model, one) for one in PROBES])}
    return xr.Dataset({**data, **plain, **right}, {"probe": [one.question for one in PROBES], **coords})


def _is_right(model: Model, problem: Problem) -> bool:
    tokenizer = model.tokenizer
    assert tokenizer is not None
    _, accuracy = answer_scores(model.hf, [encode(problem, tokenizer)], special_ids(tokenizer)[1])
    return accuracy == 1
