"""Where the pen of an SVG's path goes, by the rules of SVG, for paths that say places or steps."""

from __future__ import annotations

import re

import numpy as np

_TOKEN = re.compile(r"[A-Za-z]|[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?")
_TAKES = {"m": 2, "l": 2, "h": 1, "v": 1, "q": 4, "c": 6, "z": 0}


def places(path: str) -> np.ndarray:
    """Every place that is named, [n, 2], those that curves bend towards among them; ends of closed parts too."""
    tokens = _TOKEN.findall(path)
    found: list[np.ndarray] = []
    at = begin = np.zeros(2)
    command = ""
    while tokens:
        if tokens[0].isalpha():
            command = tokens.pop(0)
        kind, steps = command.lower(), command.islower()
        numbers = np.array([float(tokens.pop(0)) for _ in range(_TAKES[kind])])
        if kind == "z":
            at = begin
        elif kind in "hv":
            along = "hv".index(kind)
            at = at.copy()
            at[along] = numbers[0] + (at[along] if steps else 0)
        else:
            own = numbers.reshape(-1, 2) + (at if steps else 0)
            found.extend(own[:-1])
            at = own[-1]
        found.append(at)
        if kind == "m":
            begin = at
            command = "l" if steps else "L"
    return np.array(found)
