"""Patching: at which tokens and boundaries the stream carries what tells one prompt's answer from another's.

Source: Meng et al. 2022 (causal tracing); Zhang & Nanda 2024 (activation patching).
"""

from typing import Final

import xarray as xr

from bathyscope.pages.figures.kind import Drawing, FigureKind
from bathyscope.pages.figures.kit.heat_map import Side
from bathyscope.pages.figures.kit.token_map import BLOCK_LABEL, BOUNDARY_LABEL, Reading, token_panels
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.runs.run import Run

_TITLES: Final = {"block": "Patching the stream", "attention": "Patching attention", "mlp": "Patching the MLP"}


def _drawing(run: Run, options: FigureOptions) -> Drawing:
    """Maps of the first prompts that were patched, a part under the other, each with the same colours."""
    data = run["patching"]
    read = data["read_at"]
    # the tokens behind the one that is read change nothing that is measured; the map ends with it, and marks it
    data = data.assign_coords(n_tokens=read + 2).assign(answer_start=(read + 1).where(read >= 0, -1))
    readings = {name: one for part in data["part"].values.tolist() for name, one in _readings(data, part)}
    panels, said = token_panels(data, readings, options, "have no source or are too long")
    note = (
        "At one boundary one token's residual stream, or what attention or the MLP of the block of that number adds to "
        "it, is replaced by that of another prompt of the same length (the source), and everything after it "
        "recomputed. Colour: how much of the way from the prompt's own answer to the source's the prediction goes (0 = "
        "nothing changes, 1 = as in the source; below 0 = away from it), by the difference of both answers' "
        "log-probabilities; where both have the same answer, KL. The triangle marks the token whose prediction is "
        "read; where a column fades and another begins, what is told apart has moved from one token to the other. "
        f"A boundary is the input of the block of that index. {said}"
    )
    return Drawing(panels, note)


def _readings(data: xr.Dataset, part: str) -> list[tuple[str, Reading]]:
    """What is drawn of a part: the recovered share, and the divergence of pairs that have one answer."""
    own = data.sel(part=part) if part == "block" else data.sel(part=part).isel(boundary=slice(-1))
    rows = Side(BOUNDARY_LABEL, "boundary") if part == "block" else Side(BLOCK_LABEL, "block")
    share, kl = own["recovered"], own["kl"]
    same = share.isnull().all([dim for dim in share.dims if dim != "prompt"])
    found = [
        (part, Reading(share, _TITLES[part], rows, "way to the source's answer\n(dimensionless)", "way", "signed"))
    ]
    if bool((same & kl.notnull().any(["boundary", "token"])).any()):
        found.append((f"{part}_kl", Reading(kl.where(same), _TITLES[part], rows, "KL (nats)", "KL", "linear")))
    return found


FIGURE: Final = FigureKind("patching", "Patching", ("recovered", "kl"), _drawing)
