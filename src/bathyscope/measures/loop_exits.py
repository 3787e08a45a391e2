"""Exits of looped models: where a learned gate lets tokens leave, against leaving where the lens is sure.

A token leaves at the first boundary that the gate reads where its rule reaches a threshold, and at the last boundary at
the latest. The gate's rule is the probability to have left, 1 − Π (1 − λ). That of confidence is the largest
probability of the lens. The two are compared where tokens go equally deep.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from bathyscope.core.arrays import FloatArray
from bathyscope.measures.of.lens import EXIT_RULES, EXIT_THRESHOLDS
from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.model.anatomy.gates import read_gate
from bathyscope.prompts.parts import clusters_in
from bathyscope.statistics.bootstrap import Interval, bootstrap_interval
from bathyscope.statistics.sampling import Sampling, cluster_weights
from bathyscope.wavefront.batch import Batch

_DEPTHS: Final = 101
"""Depths at which the two rules are compared."""


def token_exits(
    anatomy: Anatomy, batch: Batch, boundaries: Sequence[Tensor], agreement_BN: Tensor, confidence_BN: Tensor
) -> dict[str, Tensor]:
    """Return where tokens leave, and with which prediction, by rule and threshold.

    Args:
        boundaries: the stream at every boundary, of all tokens [N, width] each, prompt after prompt.
        agreement_BN: [boundaries, N], whether the lens's likeliest token is the final one.
        confidence_BN: [boundaries, N], the lens's largest probability.

    Returns:
        ``gate_exit`` [boundaries, N], the probability that the gate ends a token there, NaN where it is not read;
        ``exit_depth`` and ``exit_agreement`` [rules · thresholds, N].
    """
    outputs = [_padded(anatomy.active(resid_ND), batch) for resid_ND in boundaries[1:]]
    read_at, leaving_RBT = read_gate(anatomy, batch.ids_BT, outputs)
    leaving_RN = torch.stack([batch.flat(leaving_BT[..., None])[:, 0] for leaving_BT in leaving_RBT])
    last = len(boundaries) - 1
    places = [boundary for boundary in read_at if boundary < last]
    stay_RN = (1 - leaving_RN[: len(places)]).cumprod(0)
    left_RN = 1 - stay_RN
    gate_exit = torch.full_like(agreement_BN, torch.nan, dtype=torch.float64)
    gate_exit[places] = torch.diff(left_RN, dim=0, prepend=torch.zeros_like(left_RN[:1]))
    gate_exit[last] = stay_RN[-1]
    at = torch.tensor([*places, last], device=left_RN.device)
    depths, agreements = [], []
    for score_RN in (left_RN, confidence_BN[places].double()):
        for threshold in EXIT_THRESHOLDS:
            leaves = torch.cat([score_RN >= threshold, torch.ones_like(score_RN[:1], dtype=torch.bool)])
            depth_N = at[leaves.int().argmax(0)]
            depths.append(depth_N.double())
            agreements.append(agreement_BN.double().gather(0, depth_N[None])[0])
    return {"gate_exit": gate_exit, "exit_depth": torch.stack(depths), "exit_agreement": torch.stack(agreements)}


def by_rule(values: Tensor) -> Tensor:
    """Return [prompts, rules, thresholds] of [prompts, rules · thresholds]."""
    return values.reshape(len(values), len(EXIT_RULES), len(EXIT_THRESHOLDS))


def gate_advantage(merged: xr.Dataset, seed: int) -> dict[str, Any]:
    """Return how much more often the gate's exits give the final token than confident ones of equal mean depth.

    A mean over depths, with its bootstrap interval over prompts.
    """
    depth, agreement = (merged[name].transpose("prompt", ...).values for name in ("exit_depth", "exit_agreement"))
    sampling = Sampling(seed=seed, cluster=clusters_in(merged, None))
    value = _advantage(depth.mean(0), agreement.mean(0))
    weights = cluster_weights(np.ones(len(depth)), sampling.cluster)
    ends = Interval(np.nan, np.nan)
    if weights.size > 1:
        counts = sampling.counts(len(depth))
        shares = counts / counts.sum(axis=1, keepdims=True)
        means = [np.tensordot(shares, values, axes=1) for values in (depth, agreement)]
        draws = np.array([_advantage(*curves) for curves in zip(*means)])
        ends = bootstrap_interval(value, draws, weights, level=sampling.level, limits=(-1.0, 1.0))
    return {"gate_advantage": value, "gate_advantage_low": ends.low, "gate_advantage_high": ends.high}


def _advantage(depth_RT: FloatArray, agreement_RT: FloatArray) -> float:
    """Return the mean gap of two curves of agreement over depth; both end at the same first and last exit."""
    grid = np.linspace(depth_RT.min(), depth_RT.max(), _DEPTHS)
    gate, confidence = (np.interp(grid, depth, agreement) for depth, agreement in zip(depth_RT, agreement_RT))
    return float((gate - confidence).mean())


def _padded(values_ND: Tensor, batch: Batch) -> Tensor:
    """Return values of all tokens, prompt after prompt, as [prompts, tokens, width]."""
    padded = values_ND.new_zeros(*batch.ids_BT.shape, values_ND.shape[-1])
    for row, piece in zip(padded, values_ND.split(list(batch.lengths))):
        row[: len(piece)] = piece
    return padded
