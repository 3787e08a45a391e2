"""``survey --states``: which of the flags of a survey are for stored states, and what they are there."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from bathyscope.core.conditions import write_option
from bathyscope.core.text import without_folders
from bathyscope.errors import OptionError
from bathyscope.model.options import LoadOptions
from bathyscope.surveying.options import StatesOptions, SurveyOptions

_DEFAULTS: Final = {option.name: option.default for kind in (SurveyOptions, LoadOptions) for option in fields(kind)}


def stored_request(values: dict[str, Any], measures: Iterable[str]) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return the head, nothing, and arguments of ``survey_states``.

    Args:
        values: of all flags of a survey, and of a recipe.
        measures: whose options are among them.

    Raises:
        OptionError: a model next to states, no head, or a flag that runs a model.
    """
    if values["model"] is not None:
        raise OptionError(
            f"MODEL={values['model']!r} and {write_option('states', values['states'])} are two things to survey; name "
            f"the model as {write_option('head', values['model'])}, or leave states out."
        )
    if values["head"] is None:
        raise OptionError(
            "Stored states are read by the head of the model that was served, and none is given: say --head MODEL, a "
            "hub name or a folder with config.json, final norm and unembedding."
        )
    allowed = {option.name for option in fields(StatesOptions)}
    for name, default in _DEFAULTS.items():
        if name not in allowed and values[name] != default:
            raise OptionError(
                f"{name}={values[name]!r} is for a model that is run, and states are read; leave {name} out."
            )
    options = {name: values[name] for name in measures if values[name] is not None}
    request = {name: values[name] for name in allowed} | options
    if request["measures"] is not None:
        request["measures"] = ",".join(request["measures"])
    if request["out"] is None:
        request["out"] = _default_out(request["head"], request["states"])
    return str(values["head"]), {}, request


def _default_out(head: str, states: str) -> str:
    """Return ``runs/Qwen3-8B-hidden_states`` for the names of the head and of the states' folder."""
    name = re.sub(r"[^\w.-]+", "-", f"{without_folders(Path(head).name)}-{Path(states).absolute().name}").strip("-.")
    return str(Path("runs") / name)
