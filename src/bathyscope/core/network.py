"""Whether the hub can be reached, asked once: its libraries would try each file again for half a minute."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final
from unittest.mock import patch

from bathyscope.core.text import elided
from bathyscope.errors import warn

_PATIENCE: Final = 5.0
"""Seconds that the hub has to answer."""
_VALID: Final = 60.0
"""Seconds after which the question is put again."""
_SHOWN: Final = 80


@dataclass
class _Answer:
    """The last answer: why the hub could not be reached (empty where it could), and when that was."""

    reason: str = ""
    time: float = -_VALID


_LAST = _Answer()


def unreachable() -> str:
    """Say why the hub cannot be reached; empty where it answers, or where the user has turned it off.

    A warning tells it once, and the answer is used for a minute.
    """
    from huggingface_hub import constants
    from huggingface_hub.utils import get_session

    if constants.HF_HUB_OFFLINE:
        return ""
    if time.monotonic() - _LAST.time < _VALID:
        return _LAST.reason
    reason = ""
    try:
        get_session().head(constants.ENDPOINT, timeout=_PATIENCE)
    # the client and its network layers each raise kinds of their own, and any of them means no answer
    except Exception as error:
        reason = elided(" ".join(str(error).split()) or type(error).__name__, _SHOWN)
        warn(f"The hub cannot be reached ({reason}). Only what is in the cache is used for the next minute.")
    _LAST.reason = reason
    _LAST.time = time.monotonic()
    return reason


@contextmanager
def cache_alone_without_network() -> Iterator[str]:
    """Inside, libraries take what is in the cache at once where the hub does not answer; gives the reason."""
    reason = unreachable()
    with ExitStack() as stack:
        if reason:
            from huggingface_hub import constants

            stack.enter_context(patch.object(constants, "HF_HUB_OFFLINE", True))
            datasets: Any = sys.modules.get("datasets.config")
            if datasets is not None:
                stack.enter_context(patch.object(datasets, "HF_HUB_OFFLINE", True))
        yield reason
