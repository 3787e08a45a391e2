"""Threads that measure one model wait for each other, and each gets what it would get alone."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import xarray as xr
from support import zoo

import bathyscope
from bathyscope.model import alone, load
from bathyscope.wavefront.engine import Wavefront

PROMPTS = [[[5, 6, 7, 8, 9, 10], [9, 8, 7, 6]], [[11, 12, 13], [14, 15, 16, 17, 18]]]


@pytest.mark.parametrize("given", ["one model", "the transformers model"])
def test_surveys_of_one_model_take_turns(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hf = zoo.entry("llama").build()
    model: Any = load(hf) if given == "one model" else hf

    def survey(prompts: list[list[int]]) -> bathyscope.Run:
        return bathyscope.survey(model, prompts, ["residual", "drop"], progress=False)

    wanted = [survey(prompts) for prompts in PROMPTS]
    run, inside, both = Wavefront.run, threading.Semaphore(1), threading.Event()

    def watched(wave: Wavefront, *rest: Any) -> None:
        if not inside.acquire(blocking=False):
            both.set()
            run(wave, *rest)
            return
        both.wait(0.3)  # time for the other thread to come in, if nothing keeps it out
        run(wave, *rest)
        inside.release()

    monkeypatch.setattr(Wavefront, "run", watched)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(survey, PROMPTS))
    assert not both.is_set()
    for one, other in zip(found, wanted, strict=True):
        for name in ("residual", "drop"):
            xr.testing.assert_identical(one[name], other[name])


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
