"""Every sentence of the verdict against its numbers, over a grid of constructed readings.

What is true of a case is computed here from its arrays; a sentence that claims anything else fails.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from html import unescape
from itertools import product
from typing import Any

import numpy as np
import pytest
import xarray as xr
from scipy import stats
from support.kept import half_by_hand, ramps
from support.synthetic import plain_run

from bathyscope.cli.console import write
from bathyscope.cli.summary import headline_lines
from bathyscope.pages.head.answer import answer
from bathyscope.runs.judging import verdict_of
from bathyscope.runs.run import Run

L = 6
NAN = math.nan
SUBJECTS = {
    "the depth from which half of the tokens keep their prediction": "half",
    "the depth by which 90 % of the effect is done": "own",
}


def effects_for(own: float) -> list[float]:
    """Effects of six blocks whose 90 % are done after ``own`` blocks, 0.9 or more; none for 0, unknown for NaN."""
    effects = [NAN if math.isnan(own) else 0.0] * L
    if own > 0:
        block = min(math.ceil(own) - 1, L - 1)
        within = own - block
        # 90 % = before + within · share; what is left comes after the block, or is none where it is the last
        share = 0.9 / within if block == 0 else 0.1 / (1 - within) if block == L - 1 else 0.5
        effects[block] = share
        effects[0] += 0.9 - within * share
        effects[-1] += 0.1 - (1 - within) * share
    return effects


@dataclass(frozen=True)
class Case:
    """What one run is made of: a reading a prompt, and what its controls read.

    Args:
        readable: of each prompt, from where half of its tokens keep their prediction.
    """

    readable: tuple[float, ...]
    own: tuple[float, ...]
    cluster: tuple[str, ...] | None = None
    controls: Mapping[str, tuple[tuple[float, ...], tuple[float, ...]]] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    part: str = "block"
    has_skip: bool = True
    costs: tuple[float, ...] = (2.0, 0.01, 0.2, 0.3, 0.4, 0.5)
    agreement: float = 0.69

    def run(self) -> Run:
        controls = {
            label: plain_run(self.datasets(*values), self.all_settings) for label, values in self.controls.items()
        }
        return plain_run(self.datasets(self.readable, self.own), self.all_settings, controls)

    @property
    def all_settings(self) -> dict[str, Mapping[str, Any]]:
        return {"lens": {}, "drop": {}, **({"skip": {}} if self.has_skip else {}), **self.settings}

    def datasets(self, readable: tuple[float, ...], own: tuple[float, ...]) -> dict[str, xr.Dataset]:
        prompts = len(readable)
        agreement = np.linspace(0, 1, L + 1) * np.ones((prompts, 1))
        agreement[:, -2] = self.agreement
        coords = {
            "prompt_id": ("prompt", np.array([f"p{n}" for n in range(prompts)], dtype=object)),
            "n_tokens": ("prompt", np.full(prompts, 20)),
        }
        if self.cluster is not None:
            coords["book"] = ("prompt", np.array(self.cluster, dtype=object))
        lens = xr.Dataset(
            {
                "prediction_depth": ("prompt", list(readable)),
                "top1_agreement": (("prompt", "boundary"), agreement),
                "top1_kept": (("prompt", "boundary"), ramps(readable, L)),
            },
            {"boundary": range(L + 1), **coords},
        )
        output = np.array([effects_for(value) for value in own])[:, None, None]
        dims = ("prompt", "part", "reduction", "skipped")
        labels = {"part": [self.part], "reduction": ["mean"], "skipped": range(L), **coords}
        skip = xr.Dataset({"output_all": (dims, output), "output_future": (dims, output)}, labels)
        loss = 3.0 + np.array(self.costs) + 0.002 * np.arange(prompts)[:, None]
        drop = xr.Dataset(
            {"loss": (("prompt", "dropped"), loss), "baseline_loss": ("prompt", [3.0] * prompts)},
            {"dropped": range(L), **coords},
        )
        return {"lens": lens, "drop": drop, **({"skip": skip} if self.has_skip else {})}

    @property
    def truth(self) -> dict[str, np.ndarray]:
        has_own = self.has_skip and self.part == "block"
        own = np.array(self.own) if has_own else np.full(len(self.own), NAN)
        return {"half": np.array(self.readable), "own": own}

    def value(self, reading: str) -> float:
        """What the run reads: tokens pooled over prompts, or a mean over prompts."""
        values = self.truth[reading]
        if reading == "half":
            return half_by_hand(ramps(values, L), [20] * len(values))
        return float(values[~np.isnan(values)].mean()) if (~np.isnan(values)).any() else NAN

    @property
    def untrained(self) -> dict[str, np.ndarray]:
        """[S, P] of each reading."""
        seeds = [values for label, values in self.controls.items() if label.startswith("untrained")]
        has_own = self.has_skip and self.part == "block"
        return {
            "half": np.array([readable for readable, _ in seeds]),
            "own": np.array([own if has_own else [NAN] * len(own) for _, own in seeds]),
        }

    def units(self, reading: str) -> int:
        has_value = ~np.isnan(self.truth[reading])
        return int(has_value.sum()) if self.cluster is None else len(set(np.array(self.cluster)[has_value]))

    @property
    def departed(self) -> list[str]:
        options = {"answer": "lens.positions=answer", "inner": "lens.positions=inner"}
        lens, skip = self.settings.get("lens", {}), self.settings.get("skip", {})
        listed = [options[lens["positions"]]] if "positions" in lens else []
        listed += ["lens.norm=frozen"] if lens.get("norm") == ["frozen"] else []
        if self.has_skip:
            listed += [f"skip.protect_first={skip['protect_first']}"] if "protect_first" in skip else []
            listed += ["skip.axis=channels"] if skip.get("axis") == "channels" else []
        return listed


def half_moved(case: Case) -> float | None:
    """Half of the tokens of the run less those of its controls, of prompts that all read; None without such."""
    run, controls = case.truth["half"], case.untrained["half"]
    paired = ~np.isnan(run - controls).any(0)
    if not paired.any():
        return None
    run_value, *values = (half_by_hand(ramps(row[paired], L), [20] * int(paired.sum())) for row in (run, *controls))
    return run_value - float(np.mean(values))


def training_interval(case: Case, reading: str) -> tuple[float, float, float] | None:
    """Mean difference and its interval; None where nothing is paired.

    A prompt counts for itself, or its cluster does; of clusters of unequal sizes the interval is in no closed form.
    """
    difference = case.truth[reading] - case.untrained[reading]
    read = ~np.isnan(difference).any(0)
    paired = difference[:, read]
    if paired.size == 0:
        return None
    moved = float(paired.mean())
    if case.cluster is not None:
        names, members = np.unique(np.array(case.cluster)[read], return_counts=True)
        if len(names) > 1 and np.ptp(members) > 0:
            return moved, NAN, NAN
        paired = np.stack([paired[:, np.array(case.cluster)[read] == name].mean(1) for name in names], axis=1)
    seeds, prompts = paired.shape
    if prompts < 2:
        return moved, NAN, NAN
    parts = [(paired.mean(0).var(ddof=1) / prompts, prompts - 1)]
    if seeds > 1:
        parts.append(((1 + 1 / seeds) * paired.mean(1).var(ddof=1), seeds - 1))
    total = sum(variance for variance, _ in parts)
    reach = 0.0
    if total > 0:
        freedom = total**2 / sum(variance**2 / df for variance, df in parts)
        reach = stats.t.ppf(0.975, freedom) * math.sqrt(total)
    # of prompts that agree, as many as this many would not show may be unlike them, with depths anywhere from 0 to L
    unseen = 1 - 0.025 ** (1 / prompts) if np.ptp(paired.mean(0)) < 1e-9 else 0.0
    below, above = math.hypot(reach, unseen * (L + moved)), math.hypot(reach, unseen * (L - moved))
    return moved, max(moved - below, -L), min(moved + above, L)


def constructed() -> Iterator[Case]:
    """Readings × prompts × clusters × controls × settings, every third."""
    spread = np.array([-0.4, 0.3, 0.1, -0.2, 0.4, -0.2])
    readings = {
        "equal": (lambda s: 3 + s, lambda s: 3 + s),
        "exactly equal": (lambda s: 3 + 0 * s, lambda s: 3 + 0 * s),
        "own later": (lambda s: 2 + s, lambda s: 5 + s / 2),
        "own earlier": (lambda s: 5 + s, lambda s: 2 + s),
        "wide": (lambda s: 3 + 6 * s, lambda s: 3.4 + 6 * s),
        "idle": (lambda s: 0 * s, lambda s: 0 * s),
        "no own": (lambda s: 3 + s, lambda s: s + NAN),
        "own of one prompt": (lambda s: 3 + s, lambda s: np.where(np.arange(len(s)) == 0, 3.2, NAN)),
        "no readable": (lambda s: s + NAN, lambda s: 3 + s),
        "nothing": (lambda s: s + NAN, lambda s: s + NAN),
    }
    clusters = {"alone": None, "one book": lambda n: ("a",) * n, "three books": lambda n: tuple("abcabc"[:n])}
    # how far each seed lies below the run: readable, own
    controls: dict[str, list[tuple[float, float]]] = {
        "none": [],
        "both moved": [(1.5, 1.4), (1.6, 1.5), (1.4, 1.45)],
        "own moved": [(-1.0, 2.0), (1.2, 2.0), (0.1, 2.0)],
        "nothing moved": [(0.05, 0.0), (-0.05, 0.02), (0.0, -0.02)],
        "open": [(-2, 1.5), (2, -1.5), (0.5, 0.2)],
        "one seed": [(1.0, 1.0)],
        "silent": [(0.1, NAN), (0.0, NAN), (-0.1, NAN)],
        "deaf": [(NAN, NAN)] * 3,
    }
    settings: dict[str, dict[str, Any]] = {
        "default": {},
        "answer": {"settings": {"lens": {"positions": "answer"}}},
        "frozen slip": {"settings": {"lens": {"norm": ["frozen"]}, "skip": {"axis": "channels"}}},
        "unprotected": {"settings": {"skip": {"protect_first": 0}}},
        "attention": {"part": "attention", "settings": {"skip": {"parts": ["attention"]}}},
        "no skip": {"has_skip": False},
    }
    every = product(readings.values(), (1, 2, 6), clusters.values(), controls.items(), settings.values())
    for number, ((readable_of, own_of), prompts, cluster, (kind, seeds), options) in enumerate(every):
        # a step that no axis is a multiple of meets every pair of their places
        if number % 19:
            continue
        offsets = spread[:prompts]
        readable, own = np.asarray(readable_of(offsets)), np.asarray(own_of(offsets))
        rows = {}
        for seed, (less_readable, less_own) in enumerate(seeds):
            noise = 0.02 * np.cos(np.arange(prompts) + seed)
            rows[f"untrained-{seed}"] = (
                tuple(np.clip(readable - less_readable + noise, 0, L)),
                tuple(np.where(own > 0, np.clip(own - less_own + noise, 0.95, 5.85), own)),
            )
        if kind == "none" and number % 2:
            rows = {"shuffled_text-0": (tuple(readable), tuple(own))}
        yield Case(
            tuple(readable),
            tuple(own),
            None if cluster is None else cluster(prompts),
            rows,
            costs=(2.0, 0.01 if number % 3 else 0.2, 0.2, 0.3, 0.4, 0.5),
            agreement=1.0 if number % 5 == 0 else 0.69,
            **options,
        )


CASES = list(constructed())


def sentences_of(text: str) -> list[str]:
    return re.split(r"(?<=[.!?]) (?=[A-Z0-9])", text)


def test_the_grid_is_large() -> None:
    assert len(CASES) >= 200


@pytest.mark.each
@pytest.mark.parametrize("part", range(8))
def test_no_sentence_says_what_its_numbers_do_not(part: int) -> None:
    cases = list(enumerate(CASES))[part::8]
    faults = [fault_of(case, case, in_all_places=number % 5 == 0) for number, case in cases]
    assert [fault for fault in faults if fault] == []


def fault_of(case: Case, measured: Case, *, in_all_places: bool = False) -> str:
    """What the sentences on a measured case say that is not true of ``case``; empty where all of it is."""
    try:
        check_verdict(case, measured)
        if in_all_places:
            check_places(case)
    except AssertionError as error:
        return f"{case}: {error}"
    return ""


CASE = Case((1.0, 1.2, 0.8), (1.0, 1.1, 1.0))


@pytest.mark.parametrize(
    "changes",
    [
        {"readable": (2.0, 2.2, 1.8)},
        {"own": (5.0, 5.1, 5.0)},
        {"agreement": 1.0},
        {"has_skip": False},
        {"part": "attention"},
        {"settings": {"lens": {"positions": "answer"}}},
        {"controls": {"untrained-0": ((3.0, 3.2, 2.8), (3.0, 3.1, 3.0))}},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_sentences_on_another_case_are_noticed(changes: dict[str, Any]) -> None:
    other = replace(CASE, **changes)
    assert fault_of(CASE, CASE) == fault_of(other, other) == ""
    assert fault_of(CASE, other)
    assert fault_of(other, CASE)


@pytest.mark.parametrize("words", ["after nan blocks", "not measured", "one blocks uses 2", "None of 6", "at  last"])
def test_words_that_no_reader_should_meet_are_noticed(words: str) -> None:
    with pytest.raises(AssertionError):
        check_words(words)


def test_a_survey_without_means_is_told_to_take_them() -> None:
    """Longer prompts would not help."""
    only_maxima = {"settings": {"skip": {"output_reductions": ["max"]}}}
    case = Case((3.0, 3.4, 2.8), (NAN,) * 3, **only_maxima)  # type: ignore[arg-type]
    verdict = verdict_of(case.datasets(case.readable, case.own), settings=case.all_settings)
    told = "Skip was asked for no means of the output: survey with them too (--skip.output_reductions mean)."
    assert verdict.advice == told
    assert verdict.text.endswith(told)


def test_later_is_not_read_where_every_token_before_the_position_is_protected() -> None:
    """Nothing was left out there, which is no effect of 0."""
    case = Case((3.0, 3.4, 2.8), (3.1, 3.2, 3.3), settings={"skip": {"protect_first": 9}})
    datasets = case.datasets(case.readable, case.own)
    datasets["skip"]["output_future"].values[:2] = 0
    datasets["skip"]["positions"] = (("prompt", "sample"), np.array([[8, -1], [9, 8], [8, 16]]))
    verdict = verdict_of(datasets, settings=case.all_settings)
    np.testing.assert_array_equal(np.isnan(verdict.later.by_prompt), [True, True, False])
    assert not np.isnan(verdict.own.by_prompt).any()
    assert "later for 1 of 3 prompts" in " ".join(verdict.details)


def check_words(words: str) -> None:
    assert "nan" not in words.lower(), words
    assert not re.search(r"not measured|None|\buses\b|  |\(\)|\.\.", words), words


def check_verdict(case: Case, measured: Case) -> None:
    """Check the verdict on what was measured against what is true of a case, which should be the same."""
    controls = {label: measured.datasets(*values) for label, values in measured.controls.items()}
    numbers = None if measured.cluster is None else np.unique(np.array(measured.cluster), return_inverse=True)[1]
    datasets = measured.datasets(measured.readable, measured.own)
    verdict = verdict_of(datasets, controls, cluster=numbers, settings=measured.all_settings)
    text, details = verdict.text, verdict.details
    said = " ".join([text, *details])
    check_words(said)
    assert len(sentences_of(text)) <= 3, text
    longest = max(len(re.sub(r" \([^)]*\)", "", sentence).split()) for sentence in sentences_of(text))
    assert longest <= 26, text
    assert len(set(details)) == len(details)
    check_depth(case, text)
    check_control(case, text)
    check_advice(case, said, verdict)


def check_places(case: Case) -> None:
    """Wherever a reader meets the sentences: a page's head, a notebook's card, the terminal."""
    run = case.run()
    # a label of so few clusters is refused
    head = answer(run, "book" if case.cluster is not None and len(set(case.cluster)) > 2 else None)
    terminal = io.StringIO()
    with redirect_stdout(terminal):
        for line in headline_lines(run):
            write(line)
    card = unescape(re.sub(r"<svg.*?</svg>|<[^>]*>", " ", run._repr_html_()))
    for words in (head.headline, head.cheap, head.costly, head.purpose, *head.trust):
        check_words(words)
    for words in (card, terminal.getvalue()):
        check_words(" ".join(words.split()))
        assert "".join(run.verdict.text.split()) in "".join(words.split())
    check_head(case, run, head)


def check_depth(case: Case, text: str) -> None:
    half, own = case.value("half"), case.value("own")
    positions = case.settings.get("lens", {}).get("positions")
    of = "tokens that predict answers" if positions == "answer" else "tokens"
    tokens = re.match(rf"Half of the {of} keep their final prediction from (\d+\.\d)", text)
    done = re.search(r"90 % of the effect on the output is done by (\d+\.\d)", text)
    assert (tokens is None) == math.isnan(half), text
    assert (done is None) == (math.isnan(own) or own == 0), text
    assert ("eaving out single blocks changes no output" in text) == (own == 0), text
    assert text.startswith("No depth was read") == (math.isnan(half) and math.isnan(own)), text
    if tokens is not None:
        assert float(tokens[1]) == pytest.approx(half, abs=0.0501), text
    if done is not None:
        assert float(done[1]) == pytest.approx(own, abs=0.0501), text
        assert ", against 5.4 if all blocks counted alike" in text, text
    changed = re.search(r"the last block still changes (\d+) %", text)
    if changed:
        assert int(changed[1]) == round(100 * (1 - case.agreement)) > 0, text
    elif not math.isnan(half):
        assert round(100 * (1 - case.agreement)) == 0, text


def check_control(case: Case, text: str) -> None:
    has_untrained = any(label.startswith("untrained") for label in case.controls)
    assert ("control: an untrained model has depths too" in text) == (not has_untrained), text
    assert ("(no control:" in text) == (not case.controls), text
    assert ("not the standard definition" in text) == bool(case.departed), text
    for option in case.departed:
        assert option in text, text
    number = r"(\d+\.\d+|\de-\d+)"
    claims = {
        subject: re.search(
            rf"{subject}\) {number} blocks (earlier|later)(?: \(95 % interval {number} to {number}\))?", text
        )
        for subject in SUBJECTS
    }
    if not has_untrained:
        assert not any(claims.values()), text
        assert "training moved" not in text, text
        return
    seeds = len(case.untrained["half"])
    for subject, reading in SUBJECTS.items():
        truth = training_interval(case, reading)
        is_open = bool(re.search(rf"whether training moved [^;]*{subject}", text))
        is_same = bool(re.search(rf"{subject}[^;,]* the same within a block", text))
        if claims[subject] or is_same:
            assert seeds > 1, text
            assert truth is not None, text
        if truth is None or seeds == 1:
            assert not is_open, text
            continue
        assert bool(claims[subject]) + is_open + is_same == 1, text
        moved, low, high = truth
        if reading == "half":
            moved = half_moved(case) or 0.0
        if claims[subject]:
            size, way, nearer, farther = claims[subject].groups()  # type: ignore[union-attr]
            assert (1 if way == "later" else -1) * float(size) == pytest.approx(moved, abs=0.0501), text
            if nearer is not None and reading == "own" and not math.isnan(low):
                ends = sorted(abs(end) for end in (low, high))
                assert [float(nearer), float(farther)] == pytest.approx(ends, abs=0.0501), text
        # of half of the tokens the interval is the bootstrap's, and not in closed form
        if case.cluster is None and reading == "own":
            assert bool(claims[subject]) == (low > 0 or high < 0), (text, truth)
            assert is_same == (not claims[subject] and low > -1 and high < 1), (text, truth)


def check_advice(case: Case, said: str, verdict: Any) -> None:
    prompts, units = len(case.readable), {name: case.units(name) for name in case.truth}
    everything = prompts if case.cluster is None else len(set(case.cluster))
    unit = "prompt" if case.cluster is None else "cluster"
    assert ("--measures lens,skip" in said) == (not case.has_skip), said
    assert ("--skip.parts block" in said) == (case.has_skip and case.part != "block"), said
    if "longer prompts" in said:
        assert case.has_skip, said
        assert case.part == "block", said
        assert min(units.values()) == 0, said
    assert not re.search("[Oo]ne prompt", said) or (prompts == 1 and unit == "prompt"), said
    if "Only one cluster" in said:
        assert prompts == everything == 1, said
    if match := re.search(r"All (\d+) prompts belong to one cluster", said):
        assert int(match[1]) == prompts > 1, said
        assert everything == 1, said
    if match := re.search(r"Only (\d+) of (\d+) (\w+)s has the reading (\w+)", said):
        assert (int(match[1]), int(match[2]), match[3]) == (units[match[4]], everything, unit), said
        assert units[match[4]] == 1, said
    few = re.search(r"(\d+) (?:(?:different )?prompts|clusters of prompts) are too few", said)
    range_ = re.search(r"survey about (\d+) to (\d+) ", said)
    if case.has_skip and case.part == "block" and 2 <= min(units.values()) < 5:
        assert few, said
    if few or range_:
        ends = [(verdict.half.low, verdict.half.high), (verdict.own.low, verdict.own.high)]
        # few prompts are named whether their intervals are wide, or narrow by luck
        assert (max(high - low for low, high in ends) > 1) == ("to trust intervals this narrow" not in said), said
        smallest = min(units.values())
        assert (smallest < 5) == bool(few), said
        if range_:
            assert smallest < int(range_[1]) < int(range_[2]), said


def check_head(case: Case, run: Run, head: Any) -> None:
    """The sentences on single blocks, and the command under them."""
    prompts = len(case.readable)
    clusters = 0 if case.cluster is None else len(set(case.cluster))
    # a label of so few clusters is refused, and prompts are resampled by themselves
    resampled = clusters if clusters > 2 else prompts
    lowest = min(case.costs)
    assert ("Only one prompt" in head.cheap) == (prompts == 1), head.cheap
    # costs lie 0.002 apart from prompt to prompt: Student's factor of two prompts is 12.7
    if resampled == 6 and lowest == 0.01:
        assert head.blocks == (1,), head.cheap
    if resampled == 6 and lowest == 0.2:
        assert head.cheap.startswith("No block can be left out for less than 0.05 nats; the cheapest is block 1 ("), (
            head
        )
    if 1 < resampled < 4 and "drop" in run.measures:
        assert head.cheap.startswith("No block is named as cheap: intervals of costs need 4 different prompts"), head
        assert head.blocks == (), head
    has_untrained = any(label.startswith("untrained") for label in case.controls)
    lacking = {"lens", "skip", "drop"} - set(run.measures)
    reasons = {
        "": has_untrained,
        "To know what they cost together": bool(head.blocks),
        "To measure what is missing": bool(lacking),
        # fewer than four leave it open whether few prompts carry a cost
        "To narrow the intervals, with more prompts": resampled < 4,
        "To know what training moved": not has_untrained,
    }
    assert reasons[head.purpose], head
    assert bool(head.purpose) == bool(head.command), head
