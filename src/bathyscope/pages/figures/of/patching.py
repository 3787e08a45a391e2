"""Patching: at which tokens and boundaries the stream decides between the answers of two prompts.

Source: Meng et al. 2022 (causal tracing); Zhang & Nanda 2024 (activation patching).
"""

from typing import Final

import xarray as xr

from bathyscope.pages.figures.by_dimensions import place_panels
from bathyscope.pages.figures.kind import Drawing, FigureKind
from bathyscope.pages.figures.kit.heat_map import Side
from bathyscope.pages.figures.kit.token_map import (
    FIXED,
    SHORT_BLOCK_LABEL,
    SHORT_BOUNDARY_LABEL,
    TokenGrid,
    make_token_panels,
)
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.runs.run import Run

_TITLES: Final = {"block": "Patching the stream", "attention": "Patching attention", "mlp": "Patching the MLP"}


def _make_drawing(run: Run, options: FigureOptions) -> Drawing:
    """Draw maps of the first patched prompts, one part below the other, each in its own colours."""
    data = run["patching"]
    read = data["read_at"]
    # Tokens after the one that is read change nothing that is measured; the map ends with this token, and marks it.
    data = data.assign_coords(n_tokens=read + 2).assign(answer_start=(read + 1).where(read >= 0, -1))
    values_by_name = {
        name: token_values for part in data["part"].values.tolist() for name, token_values in _list_values(data, part)
    }
    panels, remarks = make_token_panels(data, values_by_name, options, "have no source or are too long")
    note = (
        "At one boundary one token's residual stream, or what attention or the MLP of the block of that number adds to "
        "it, is replaced by that of another prompt of the same length (the source), and everything after it is "
        "recomputed. Colour: how far the prediction moves from the prompt's own answer to the source's (0 = "
        "no change, 1 = as in the source; below 0 = away from it), by the difference of both answers' "
        f"log-probabilities; where both have the same answer, KL. {FIXED} The triangle marks the token whose "
        "prediction is read; where a row fades and another begins, the information has moved from one token to the "
        "other. "
        f"A boundary is the input of the block of that index. {remarks}"
    )
    panels += place_panels(run["patching"], ("recovered_at", "kl_at"), options)
    return Drawing(panels, note)


def _list_values(data: xr.Dataset, part: str) -> list[tuple[str, TokenGrid]]:
    """List the maps of a part: the recovered share, and the KL of pairs with one answer."""
    part_data = data.sel(part=part) if part == "block" else data.sel(part=part).isel(boundary=slice(-1))
    depth = Side(SHORT_BOUNDARY_LABEL, "boundary") if part == "block" else Side(SHORT_BLOCK_LABEL, "block")
    # Behind the last boundary, and in what the last block adds, a token changes its own prediction alone.
    at_end = part_data["boundary"] == part_data["boundary"].max()
    measured = ~(at_end & (part_data["token"] < part_data["read_at"]))
    panel = "prompt" if part == "block" else part
    share, kl = part_data["recovered"].where(measured), part_data["kl"].where(measured)
    same = share.isnull().all([dim for dim in share.dims if dim != "prompt"])
    named_values = [
        (
            part,
            TokenGrid(
                share, _TITLES[part], depth, "way to the source's answer (dimensionless)", "way", "signed", panel
            ),
        )
    ]
    if bool((same & kl.notnull().any(["boundary", "token"])).any()):
        named_values.append(
            (f"{part}_kl", TokenGrid(kl.where(same), _TITLES[part], depth, "KL (nats)", "KL", "linear", panel))
        )
    return named_values


FIGURE: Final = FigureKind("patching", "Patching", ("recovered", "kl"), _make_drawing)
