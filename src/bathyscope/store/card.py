"""The small picture of a run's verdict, for notebooks."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bathyscope.verdict import Verdict

_WIDTH: Final = 360
_LEFT: Final = 70
_ROW: Final = 20


def picture(verdict: Verdict) -> str:
    """The readings on one line of blocks done each, 0 to L: a mark, and a bar for its interval."""
    there = [one for one in (verdict.readable, verdict.own, verdict.later) if not math.isnan(one.value)]
    scale = (_WIDTH - _LEFT - 20) / verdict.n_blocks
    parts = []
    for row, one in enumerate(there):
        y = 12 + row * _ROW
        parts.append(f'<text x="0" y="{y + 4}">{one.name}</text>')
        parts.append(f'<path d="M{_LEFT} {y}h{verdict.n_blocks * scale:.1f}" stroke="currentColor" opacity=".25"/>')
        if not math.isnan(one.low):
            bar = f"M{_LEFT + one.low * scale:.1f} {y}h{(one.high - one.low) * scale:.1f}"
            parts.append(f'<path d="{bar}" stroke="#0072b2" stroke-width="5"/>')
        parts.append(f'<circle cx="{_LEFT + one.value * scale:.1f}" cy="{y}" r="4" fill="#d55e00"/>')
    y = 12 + len(there) * _ROW + 4
    parts.append(f'<text x="{_LEFT}" y="{y}">0</text>')
    end = f"{_LEFT + verdict.n_blocks * scale:.1f}"
    parts.append(f'<text x="{end}" y="{y}" text-anchor="middle">{verdict.n_blocks}</text>')
    said = escape(verdict.text)
    return (
        f'<svg width="{_WIDTH}" height="{y + 4}" role="img" aria-label="{said}" font-size="11" fill="currentColor">'
        f"{''.join(parts)}</svg>"
    )
