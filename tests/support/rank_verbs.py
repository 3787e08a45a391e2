"""Every verb that takes a model, called with one that is split over ranks."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bathyscope

TEXT_IDS = [[5, 6, 7, 8, 9, 10, 11, 12], [25, 26, 27, 8, 9, 10, 31, 12], [5, 16, 7, 28, 9, 10, 41, 12]]


def verbs(place: Path) -> dict[str, Callable[[Any], Any]]:
    """Each verb as it would be called, by name."""
    ids = TEXT_IDS
    answered = [bathyscope.Prompt(ids=own, answer_tokens=2, id=str(n)) for n, own in enumerate(ids)]
    return {
        "prune": lambda model: bathyscope.prune(model, answered, answered, drop=1, progress=False),
        "repair": lambda model: bathyscope.repair(model, "drop:2", answered, test=answered, progress=False),
        "repeat_scan": lambda model: bathyscope.repeat_scan(model, answered, progress=False),
        "export": lambda model: bathyscope.export(model, "drop:2", place / "exported"),
        "evaluate": lambda model: bathyscope.evaluate(model, ["arc_easy"], progress=False),
        "exit_advice": lambda model: bathyscope.exit_advice(model, answered, progress=False),
        "scheduled": lambda model: _entered(bathyscope.scheduled(model, "drop:2")),
        "maps": lambda model: bathyscope.maps(model, model, ids, progress=False),
        "cka": lambda model: bathyscope.cka(model, model, ids),
        "diff": lambda model: bathyscope.diff(model, model, ids),
        "solved": lambda model: bathyscope.solved(model, answered, progress=False),
        "fit_lens": lambda model: bathyscope.fit_lens(model, ids, skip_first=2, progress=False),
    }


def _entered(context: Any) -> None:
    with context:
        pass


def call_all(folder: str, place: str) -> None:
    """Write, for this rank, what each verb says to a split model."""
    warnings.simplefilter("ignore")
    model = bathyscope.load(folder, tensor_parallel="auto")
    said = {}
    for name, verb in verbs(Path(place)).items():
        try:
            verb(model)
            said[name] = ""
        except Exception as error:
            said[name] = f"{type(error).__name__}: {' '.join(str(error).split())}"
    Path(place, f"said-{os.environ['RANK']}.json").write_text(json.dumps(said), encoding="utf-8")
