"""Threads that measure one model wait for each other, and each gets what it would get alone."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import xarray as xr
from support import zoo

import bathyscope
from bathyscope.analysis.probes import skeleton
from bathyscope.analysis.probes.ing import ing_probe
from bathyscope.analysis.probes.subjoiner import subjoiner
from bathyscope.analysis.probes.wic import wic_probe
from bathyscope.model import admission, alone, load
from bathyscope.surgery.benchmarks.evaluating import evaluate
from bathyscope.wavefront.engine import Wavefront

PROMPTS = [[[5, 6, 7, 8, 9, 10], [9, 8, 7, 6]], [[11, 12, 13], [14, 15, 16, 17, 18]]]


@pytest.mark.parametrize("given", ["one model", "the transformers model"])
def test_surveys_of_one_model_take_turns(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hf = zoo.entry("llama").build()
    model: Any = load(hf) if given == "one model" else hf

    def survey(prompts: list[list[int]]) -> bathyscope.Run:
        return bathyscope.survey(model, prompts, ["residual", "drop"], progress=False)

    wanted = [survey(prompts) for prompts in PROMPTS]
    run, inside, both = Wavefront.run_convoy, threading.Semaphore(1), threading.Event()

    def watched(wave: Wavefront, *rest: Any) -> None:
        if not inside.acquire(blocking=False):
            both.set()
            run(wave, *rest)
            return
        both.wait(0.3)  # time for the other thread to come in, if nothing keeps it out
        run(wave, *rest)
        inside.release()

    monkeypatch.setattr(Wavefront, "run_convoy", watched)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(survey, PROMPTS))
    assert not both.is_set()
    for one, other in zip(found, wanted, strict=True):
        for name in ("residual", "drop"):
            xr.testing.assert_identical(one[name], other[name])


class Asked(Exception):  # noqa: N818
    """Raised in the place of waiting, with the models that are waited for."""


@pytest.mark.parametrize(
    ("verb", "models", "rest"),
    [
        (bathyscope.survey, 1, [["text"]]),
        (bathyscope.solved, 1, ["prompts"]),
        (bathyscope.solved_by, 2, ["prompts"]),
        (bathyscope.cka, 2, ["prompts"]),
        (bathyscope.diff, 2, ["prompts"]),
        (bathyscope.maps, 2, ["prompts"]),
        (evaluate, 1, ["arc_easy"]),
        (wic_probe, 1, ["train", "validation"]),
        (ing_probe, 1, ["corpus"]),
        (subjoiner, 1, ["words"]),
    ],
)
def test_whatever_measures_a_model_has_it_for_itself(
    verb: Any, models: int, rest: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*given: object) -> None:
        raise Asked(given)

    # probes begin alike, in one place
    home = skeleton if verb in (wic_probe, ing_probe, subjoiner) else sys.modules[verb.__module__]
    monkeypatch.setattr(home, "alone", refused)
    given = [object() for _ in range(models)]
    with pytest.raises(Asked) as caught:
        verb(*given, *rest)
    assert caught.value.args == (tuple(given),)


def test_two_models_are_waited_for_in_one_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that name them in different orders would else wait for each other for ever."""
    first, second = zoo.entry("llama").build(), zoo.entry("llama").build(seed=1)
    taken: list[object] = []

    class Noted:
        def __init__(self, hf: object) -> None:
            self.hf = hf

        def __enter__(self) -> None:
            taken.append(self.hf)

        def __exit__(self, *_: object) -> None:
            return None

    monkeypatch.setattr(admission, "_LOCKS", {hf: Noted(hf) for hf in (first, second)})
    known = load(first)
    taken.clear()
    for models in ((first, second), (second, first), (second, known, second)):
        with alone(*models):
            pass
    wanted = sorted([first, second], key=id)
    assert [id(one) for one in taken] == [id(one) for one in wanted] * 3


def test_other_models_and_the_same_thread_do_not_wait() -> None:
    first, second = zoo.entry("llama").build(), zoo.entry("llama").build(seed=1)
    free = threading.Event()

    def other() -> None:
        with alone(second), alone("a name"):
            free.set()

    with alone(first), alone(load(first)):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert free.is_set()
