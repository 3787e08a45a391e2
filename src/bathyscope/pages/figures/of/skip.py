"""Skip effects: maps of skipped against affected block, with the change of the output alongside.

Source: csordas2025 (effects on all tokens, and on later tokens only).
"""

from typing import Final

import xarray as xr

from bathyscope.pages.figures.kind import Drawing, FigureKind
from bathyscope.pages.figures.kit.block_effects import REACHES, Effects, drawing
from bathyscope.pages.figures.kit.texts import name_place
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.text.provenance import measure_options
from bathyscope.runs.run import Run

_WHAT: Final = (
    "One block at a time is skipped, and everything after it is recomputed. Colour: how much a later "
    "block's contribution changes, relative to its norm; dots at the right: how far the output "
    "probabilities move (L2, at most √2), with intervals. Effect on later tokens: the block is skipped before "
    "a position, and measured from this position. Grey: fixed by the definition (0 for earlier blocks; the skipped "
    "block itself)."
)
_PARTS: Final = {"block": "block", "attention": "block's attention", "mlp": "block's MLP"}


def _make_drawing(run: Run, options: FigureOptions) -> Drawing:
    """Draw a map over all prompts for each skipped part and reach, and maps of single prompts.

    The effect on the skipped block itself is fixed where its whole contribution is skipped (1), and at later tokens,
    where nothing is skipped (0).
    """
    data = run["skip"].sel(reduction=options.reduction)
    parts = [str(part) for part in data["part"].values]
    # Skipped channels affect every token, and so the block itself at later tokens.
    channels = measure_options(run, "skip").get("axis") == "channels"
    effects = {}
    for part in parts:
        chosen = data.sel(part=part)
        for reach in REACHES:
            if f"effect_{reach}" in data:
                output, reduction = _output(run["skip"].sel(part=part), reach, options)
                effects[reach if len(parts) == 1 else f"{part}_{reach}"] = Effects(
                    effect=chosen[f"effect_{reach}"],
                    output=output,
                    title=f"Skipping one {_PARTS.get(part, part)}: effect on {REACHES[reach]}",
                    own_measured=channels if reach == "future" else part != "block",
                    output_reduction=reduction,
                    reach=REACHES[reach],
                )
        # each place that has a name, from its first token on
        for number, place in enumerate(data["place"].values if "place" in data.dims else ()):
            output, reduction = _output(run["skip"].sel(part=part).isel(place=number), "at", options)
            effects[f"place_{number}" if len(parts) == 1 else f"{part}_place_{number}"] = Effects(
                effect=chosen["effect_at"].isel(place=number),
                output=output,
                title=f"Skipping one {_PARTS.get(part, part)} before {name_place(place)}: effect from there on",
                own_measured=channels,
                output_reduction=reduction,
                reach=f"from {name_place(place)} on",
            )
    count = measure_options(run, "skip").get("read_tokens")
    sampled = "" if count is None else f" The output is read at {count} tokens of each prompt, drawn at random."
    return drawing(_WHAT + sampled, effects, options)


def _output(data: xr.Dataset, reach: str, options: FigureOptions) -> tuple[xr.DataArray | None, str | None]:
    """Return the change of the output, and how it was reduced where that is not as the maps are.

    A survey that reads only some tokens knows the mean over tokens alone.
    """
    output = data.get(f"output_{reach}")
    if output is None:
        return None, None
    as_maps = output.sel(reduction=options.reduction)
    if bool(as_maps.notnull().any()):
        return as_maps, None
    others = (str(name) for name in output["reduction"].values)
    measured = next((name for name in others if bool(output.sel(reduction=name).notnull().any())), None)
    return (as_maps, None) if measured is None else (output.sel(reduction=measured), measured)


FIGURE: Final = FigureKind("skip", "Skip effects", ("effect_all", "effect_future"), _make_drawing)
