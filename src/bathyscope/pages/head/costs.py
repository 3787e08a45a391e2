"""The lower half of a profile: a tile or a bar for each block, with the loss that leaving it out adds."""

from __future__ import annotations

import math
from functools import partial

from bathyscope.pages.head.canvas import Canvas, text_width
from bathyscope.pages.head.classes import CARRIES, bar_share, class_of, highest_bar, write_cost
from bathyscope.pages.head.layouts import ProfileLayout
from bathyscope.pages.head.numbers import Points, Profile


def draw_costs(canvas: Canvas, layout: ProfileLayout, n_blocks: int, costs: Points, y: float) -> float:
    """Draw tiles or bars and the numbers of the blocks; return where what follows begins."""
    across = partial(layout.across, end=n_blocks)
    width = layout.inner / n_blocks
    by_block = dict(zip(costs.places, costs.mean))
    if n_blocks <= layout.tiles_up_to:
        _draw_tiles(canvas, layout, n_blocks, by_block, y)
        bottom = y + layout.tile
    else:
        bottom = _draw_bars(canvas, layout, n_blocks, by_block, y)
    every = next(step for step in (1, 2, 5, 10, 20, 50, 1000) if step * width >= (24 if step > 1 else 18))
    for block in range(0, n_blocks, every):
        canvas.text(across(block + 0.5), bottom + 16, str(block), layout.small, role="muted", anchor="middle")
    if not layout.own_line:
        canvas.text(layout.left - 8, bottom + 16, "block", layout.small, role="muted", anchor="end", label="x")
    return bottom + 22


def _draw_tiles(
    canvas: Canvas,
    layout: ProfileLayout,
    n_blocks: int,
    by_block: dict[int, float],
    y: float,
) -> None:
    across = partial(layout.across, end=n_blocks)
    width = layout.inner / n_blocks
    gap = 2.5 if width > 30 else 1.2
    short = width < 52
    if not layout.own_line:
        canvas.text(layout.left - 8, y + layout.tile / 2 + 4, "nats", layout.small, role="muted", anchor="end")
    for block in range(n_blocks):
        loss = by_block.get(block, math.nan)
        x = across(block) + gap
        if math.isnan(loss):
            canvas.rect(x, y, width - 2 * gap, layout.tile, role="grid", radius=4, opacity=0.5)
            canvas.text(across(block + 0.5), y + layout.tile / 2 + 5, "–", 12, role="muted", anchor="middle")
            continue
        level = class_of(loss)
        canvas.rect(x, y, width - 2 * gap, layout.tile, role=f"cost{level}", radius=4)
        text = write_cost(loss, short=short)
        size = min(14.0, (width - 2 * gap - 1) / text_width(text, 1, bold=level >= CARRIES))
        canvas.text(
            across(block + 0.5),
            y + layout.tile / 2 + size * 0.36,
            text,
            size,
            anchor="middle",
            bold=level >= CARRIES,
            role=f"cost{level}-letter",
        )


def _draw_bars(
    canvas: Canvas,
    layout: ProfileLayout,
    n_blocks: int,
    by_block: dict[int, float],
    y: float,
) -> float:
    """Draw bars on a logarithmic scale that begins at 0.03 nats; a loss below it is a stub."""
    across = partial(layout.across, end=n_blocks)
    highest = highest_bar(list(by_block.values()))
    height, width = 2 * layout.tile, layout.inner / n_blocks

    def tall(loss: float) -> float:
        return 3 + (height - 3) * bar_share(loss, highest)

    ticks = [0.1, 1.0, 10.0, 100.0]
    for tick in ticks:
        if tick <= highest:
            level = y + height - tall(tick)
            canvas.line(layout.left, level, layout.width - layout.right, level, "grid")
            canvas.text(layout.left - 6, level + 4, f"{tick:g}", layout.small, role="muted", anchor="end")
    gap = min(1.0, 0.12 * width)
    for block in range(n_blocks):
        loss = by_block.get(block, math.nan)
        if math.isnan(loss):
            continue
        size = tall(loss)
        canvas.rect(across(block) + gap, y + height - size, width - 2 * gap, size, role=f"cost{class_of(loss)}")
    return y + height


def draw_boundaries(canvas: Canvas, layout: ProfileLayout, n_blocks: int, y: float) -> None:
    """Write the axis of a picture without tiles: blocks done."""
    every = next(step for step in (1, 2, 5, 10, 20, 50, 1000) if step * layout.inner / n_blocks >= 30)
    for boundary in range(0, n_blocks + 1, every):
        x = layout.across(boundary, n_blocks)
        canvas.text(x, y, str(boundary), layout.small, role="muted", anchor="middle")
    canvas.text(layout.left, y + 17, "blocks done", layout.small, role="muted", label="x")


def draw_losses(canvas: Canvas, layout: ProfileLayout, profile: Profile, y: float) -> None:
    """Write the loss when the model is read out at a boundary, under it; where there is no room, at fewer of them.

    The boundary of the head and the last one are always there.
    """
    losses, last = profile.losses, profile.n_blocks
    room = text_width("00.0", layout.small) + 4
    marked = None if profile.head is None else profile.head.boundary
    apart = math.ceil(room / (layout.inner / last))
    chosen = [last] if marked is None else list(dict.fromkeys([marked, last]))
    if len(chosen) == 2 and abs(chosen[0] - chosen[1]) < apart:
        chosen = chosen[:1]
    chosen += [place for place in range(0, last + 1, apart) if all(abs(place - other) >= apart for other in chosen)]
    for place in sorted(chosen):
        if not math.isnan(losses[place]):
            text = f"{losses[place]:.2f}" if losses[place] < 10 else f"{losses[place]:.1f}"
            bold = place == marked
            role = "ink" if bold else "muted"
            canvas.text(layout.across(place, last), y, text, layout.small, role=role, anchor="middle", bold=bold)
