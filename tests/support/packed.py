"""What a page's views are drawn from, read back by another way than the page's script."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import numpy as np


def read(text: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and arrays of a packed text."""
    whole = zlib.decompress(base64.b64decode(text))
    end = 4 + int.from_bytes(whole[:4], "little")
    meta = json.loads(whole[4:end])
    found = {}
    for name, one in meta["arrays"].items():
        count = int(np.prod(one["shape"]))
        planes = np.frombuffer(whole, np.uint8, count * one["bytes"], end + one["at"]).reshape(one["bytes"], count)
        raw = np.zeros((count, 4), np.uint8)
        shift = 1 if one["kind"] != "whole" and one["bytes"] == 3 else 0
        raw[:, shift : shift + one["bytes"]] = planes.T
        numbers = raw.view("<u4")[:, 0]
        if shift:
            values = numbers.view(np.float32).astype(np.float64)
        elif one["kind"] == "f16":
            values = numbers.astype(np.uint16).view(np.float16).astype(np.float64)
        elif one["kind"] == "permille":
            values = np.where(numbers == 0xFFFF, np.nan, numbers / 1000)
        else:
            values = numbers.astype(np.float64)
        found[name] = values.reshape(one["shape"])
    return meta, found
