"""Page, card, badge, terminal, JSON, figure, control and comparison print one head, which is that of the tokens.

Runs are generated token by token: ties, copies, one prompt, prompts without a value, loops, one block, tokens that are
all settled at the start or only at the end. The head is counted here from the tokens, by hand.
"""

from __future__ import annotations

import contextlib
import html
import io
import json
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import xarray as xr
from support.artists import axes_titled, drawn_from
from support.kept import half_by_hand
from support.synthetic import plain_run

from bathyscope.analysis.depths import compare
from bathyscope.analysis.depths.sentences import head_row, percents, sentence
from bathyscope.cli.commands.show import _show_verdict as show_verdict
from bathyscope.cli.printing import print_result
from bathyscope.cli.summary import headline_lines, run_view
from bathyscope.measures.curves import depth_inputs
from bathyscope.pages.comparison.picture import run_curves
from bathyscope.pages.figures.of.effective_depth import FIGURE
from bathyscope.pages.figures.of.profile import profile_panel
from bathyscope.pages.files.badge import badge, depth_words
from bathyscope.pages.files.card import card, profile_record
from bathyscope.pages.head.answer import answer
from bathyscope.pages.head.numbers import read_profile
from bathyscope.pages.head.section import profile_html
from bathyscope.pages.head.sentences import basis, headline
from bathyscope.runs.run import Run
from bathyscope.statistics.effective_depth import effective_depth
from bathyscope.statistics.sampling import Sampling

CASES = 200
_COLUMNS = ("depth", "ratio", "index", "ci_low", "ci_high", "crossing_share", "reason")
_HALF = r"[Hh]alf of the tokens (?:keep their final prediction |final )?from (\d+\.\d)"


def tokens_of(rng: np.random.Generator, prompts: int, n_blocks: int, kind: int) -> list[np.ndarray]:
    """Prediction depths of the tokens of each prompt."""
    rows = [rng.integers(0, n_blocks + 1, rng.integers(1, 9)) for _ in range(prompts)]
    if kind == 1:
        return [0 * row for row in rows]
    if kind == 2:
        return [0 * row + n_blocks for row in rows]
    if kind == 3:  # two ends, where a mean and a median differ most
        return [n_blocks * (row % 2) for row in rows]
    if kind == 4:
        return [rows[0]] * prompts
    return rows


def run_of(rows: list[np.ndarray], n_blocks: int, rng: np.random.Generator, missing: bool, **controls: Run) -> Run:
    """A run of these tokens, all of whose arrays are means over each prompt's tokens."""
    boundaries = np.arange(n_blocks + 1)
    kept = np.array([[np.mean(row <= b) for b in boundaries] for row in rows])
    changed = [row == n_blocks for row in rows]
    ties = [rng.random(len(row)) < 0.5 for row in rows]
    near = np.zeros_like(kept)
    near[:, n_blocks - 1] = [np.mean(c & t) for c, t in zip(changed, ties)]
    depth = np.array([row.mean() for row in rows])
    effect = rng.random((len(rows), n_blocks)) * rng.integers(0, 2)
    if missing:
        kept[0], near[0], depth[0] = math.nan, math.nan, math.nan
    coords = {
        "prompt_id": ("prompt", np.array([f"p{n}" for n in range(len(rows))], dtype=object)),
        "n_tokens": ("prompt", [len(row) for row in rows]),
    }
    by = ("prompt", "boundary")
    loss = 5 - 3 * kept + 0.1 * depth[:, None]
    lens = xr.Dataset(
        {
            "prediction_depth": ("prompt", depth),
            "settle_depth": ("prompt", depth),
            "top1_agreement": (by, kept),
            "top1_kept": (by, kept),
            "near_ties": (by, near),
            "cross_entropy": (by, loss),
            "kl_lens_final": (by, 1 - kept),
            "overlap": (by, kept),
            "n_averaged": ("prompt", [len(row) for row in rows]),
        },
        {"boundary": boundaries, **coords},
    )
    skip = xr.Dataset(
        {"output_all": (("prompt", "part", "reduction", "skipped"), effect[:, None, None])},
        {"part": ["block"], "reduction": ["mean"], "skipped": range(n_blocks), **coords},
    )
    cosines = {f"cos_{part}": (("prompt", "block"), effect - 0.5) for part in ("attn", "mlp", "block")}
    residual = xr.Dataset(cosines, {"block": range(n_blocks), **coords})
    run = plain_run({"residual": residual, "lens": lens, "skip": skip}, {"lens": {}, "skip": {}}, controls)
    run.manifest["identity"] |= {"n_blocks": n_blocks, "prompts": len(rows)}
    return run


def by_hand(rows: list[np.ndarray], n_blocks: int, missing: bool, quantile: float = 0.5) -> float:
    """Half of the tokens, counted."""
    counted = [row for number, row in enumerate(rows) if not (missing and number == 0)]
    shares = np.array([[sum(d <= b for d in row) / len(row) for b in range(n_blocks + 1)] for row in counted])
    return half_by_hand(shares, [len(row) for row in counted], quantile) if counted else math.nan


def shown(act: Callable[[], None]) -> str:
    """What a command prints, without the breaks of its lines."""
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        act()
    return " ".join(stream.getvalue().split())


@pytest.mark.contract
@pytest.mark.parametrize("part", range(4))
def test_every_printer_says_the_head_of_the_tokens(part: int) -> None:
    for seed in range(part, CASES, 4):
        rng = np.random.default_rng(seed)
        n_blocks, prompts = int(rng.choice([1, 2, 4, 6])), int(rng.choice([1, 2, 5]))
        missing = seed % 7 == 0 and prompts > 1
        rows = tokens_of(rng, prompts, n_blocks, seed % 5)
        controls = {}
        if seed % 3 == 0:
            untrained = [tokens_of(rng, prompts, n_blocks, 0) for _ in range(2)]
            for number, tokens in enumerate(untrained):
                same_lengths = [np.resize(token, len(row)) for token, row in zip(tokens, rows)]
                untrained[number] = same_lengths
                control = run_of(same_lengths, n_blocks, rng, missing)
                # with the weights of the run and equal results it would be a copy of the run
                control.manifest["identity"] |= {"weight_hash": f"{number}f" * 32}
                controls[f"untrained-{number}"] = control
        run = run_of(rows, n_blocks, rng, missing, **controls)
        if seed % 11 == 0 and n_blocks == 6:
            run.manifest["identity"]["loops"] = [0, 1, 0, 1, 0, 1]
        check_printers(run, rows, n_blocks, missing)
        if controls:
            check_control(run, rows, untrained, n_blocks, missing)


def check_printers(run: Run, rows: list[np.ndarray], n_blocks: int, missing: bool) -> None:
    half = by_hand(rows, n_blocks, missing)
    head, profile = run.verdict.head, read_profile(run)
    assert head.tokens.value == pytest.approx(half, abs=1e-9)
    assert run.verdict.tokens_90.value == pytest.approx(by_hand(rows, n_blocks, missing, 0.9), abs=1e-9)
    printed = f"{head.tokens.value:.1f}"  # two sums of the same tokens may round to either side of a tie
    begins = f"Half of the tokens keep their final prediction from {printed}"
    counted = np.concatenate([row for number, row in enumerate(rows) if not (missing and number == 0)])
    changed = 100 * np.mean(counted == n_blocks)
    assert (f"the last block still changes {changed:.0f} %" in headline(profile)) == (round(changed) > 0)
    effect = head.effect_sentence
    terminal = headline_lines(run)[0]
    for text in (headline(profile), run.verdict.text, run.headline(), terminal, answer(run).headline, card(run)[12:]):
        assert begins in text, (text, half)
    for text in (basis(profile), run.verdict.text, terminal):
        assert effect in text
    if head.effect.value > 0:
        alike = f"against {0.9 * n_blocks:.1f} if all blocks counted alike"
        assert effect.startswith(f"90 % of the effect on the output is done by {head.effect.value:.1f}")
        assert effect.endswith(alike)
    mark = profile.mark("half")
    assert mark is not None
    assert mark.value == head.tokens.value
    assert depth_words(profile) == f"half of the tokens from {printed} of {n_blocks} block{'s' * (n_blocks > 1)}"
    check_pictures_and_tables(run, printed)
    check_estimates(run, rows, printed)
    record = profile_record(profile)["depths"]
    assert record["half"]["value"] == pytest.approx(half, abs=5e-5)
    assert json.loads(json.dumps(run.record()))["head"]["half"] == pytest.approx(half, abs=1e-9)
    # the curve that is drawn passes one half where the mark stands
    assert profile.share is not None
    assert half_by_hand(np.array([profile.share.mean]), [1]) == pytest.approx(half, abs=1e-9)


def check_pictures_and_tables(run: Run, printed: str) -> None:
    """Page, picture in words, badge, and what ``show`` prints, by each depth that they state."""
    stated = {
        "page": html.unescape(str(profile_html(run))),
        "figure": profile_panel(run).alt,
        "badge": html.unescape(badge(run)),
        "show": shown(lambda: print_result(run, "table", lambda: run_view(run))),
        "verdict": shown(lambda: show_verdict(run, None, "table")),
    }
    # heading, two pictures with their words, and the reasons to trust it; the badge has words and a label
    least = {"page": 6, "figure": 1, "badge": 2, "show": 1, "verdict": 1}
    null = run.verdict.head.tokens.null
    for place, text in stated.items():
        of_control = re.findall(f"Untrained: {_HALF}", text)
        assert set(of_control) <= (set() if null is None else {f"{null.value:.1f}"}), place
        assert len(of_control) == (0 if null is None else {"page": 2, "figure": 1}.get(place, 0)), place
        of_run = re.findall(_HALF, re.sub(f"Untrained: {_HALF}", "", text))
        assert set(of_run) == {printed}, (place, of_run)
        assert len(of_run) >= least[place], place
    assert {row["reading"]: row for row in run.verdict.rows()}["half"]["blocks"] == run.verdict.head.tokens.value


def check_estimates(run: Run, rows: list[np.ndarray], printed: str) -> None:
    """The figure of all estimates has the head in its words, and a point where the head is."""
    inputs = depth_inputs(run["residual"], run["lens"], None)
    estimates = effective_depth(inputs, Sampling(20))
    data = {name: ("estimator", [getattr(each, name) for each in estimates.values()]) for name in _COLUMNS}
    table = xr.Dataset(data, {"estimator": list(estimates)}, {"n_blocks": run.n_blocks, "level": 0.95})
    groups = {f"/{name}": run[name] for name in run.measures} | {"/effective_depth": table}
    with_table = Run(xr.DataTree.from_dict(groups), run.manifest)
    for panel in FIGURE.drawing(with_table).panels:
        assert re.findall(r"half of the tokens keep their prediction (\d+\.\d)", panel.alt) == [printed]
        if (run.n_blocks, len(rows)) != (4, 2):  # to draw takes long, and the words are of every case
            continue
        ax = axes_titled(drawn_from(FIGURE, with_table), "Effective depth")
        place = [label.get_text() for label in ax.get_yticklabels()].index("half of the tokens keep their prediction")
        heights = {
            float(np.atleast_1d(line.get_ydata())[0]): line for line in ax.get_lines() if line.get_marker() == "D"
        }
        point = heights[ax.get_yticks()[place]].get_xdata()
        assert float(np.atleast_1d(point)[0]) == run.verdict.head.tokens.value


def check_control(run: Run, rows: Any, untrained: Any, n_blocks: int, missing: bool) -> None:
    null = run.verdict.head.tokens.null
    assert null is not None
    value = np.mean([by_hand(tokens, n_blocks, missing) for tokens in untrained])
    assert null.value == pytest.approx(value, abs=1e-9)
    assert null.moved == pytest.approx(by_hand(rows, n_blocks, missing) - value, abs=1e-9)
    (control,) = read_profile(run).controls
    assert [mark.value for mark in control.marks if mark.name == "half"] == [null.value]


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=() if seed < 12 else pytest.mark.thorough) for seed in range(CASES)]
)
def test_a_comparison_is_headed_by_what_its_picture_draws(seed: int) -> None:
    rng = np.random.default_rng(seed)
    runs, halves = [], []
    for name, n_blocks in (("own/one", 6), ("own/two", int(rng.choice([4, 6])))):
        rows = tokens_of(rng, 5, n_blocks, seed % 5)
        run = run_of(rows, n_blocks, rng, missing=False)
        run.manifest["identity"] |= {"model": name, "prompt_hash": "the same"}
        skip = run["skip"]
        effect = np.ones((5, 1, 2, n_blocks, n_blocks))
        dims = ("prompt", "part", "reduction", "skipped", "block")
        skip = skip.reindex(reduction=["mean", "max"]).assign(effect_future=(dims, effect))
        skip = skip.assign_coords(block=range(n_blocks))
        groups = {f"/{measure}": skip if measure == "skip" else run[measure] for measure in run.measures}
        runs.append(Run(xr.DataTree.from_dict(groups), run.manifest))
        halves.append(by_hand(rows, n_blocks, missing=False) / n_blocks)
    comparison = compare(runs, resamples=50, paired=False)
    row = head_row(comparison)
    assert row is not None
    assert row.estimator == "half"
    assert [row.reference, row.other] == pytest.approx(halves, abs=1e-9)
    assert [curve.ratio for curve in run_curves(comparison)] == pytest.approx(halves, abs=1e-9)
    for text in percents(row):
        assert text in sentence(comparison)
    for curve in run_curves(comparison):
        assert curve.share is not None
        at_half = half_by_hand(np.array([curve.share.mean]), [1]) / curve.n_blocks
        assert at_half == pytest.approx(curve.ratio, abs=1e-9)
