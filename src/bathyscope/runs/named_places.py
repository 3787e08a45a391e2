"""Which tokens of a run's prompts somebody gave a name, in whatever measure takes places by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray as xr

    from bathyscope.runs.run import Run


def place_names(prompt_data: xr.Dataset) -> dict[int, list[str]]:
    """Return the names of the places that tokens of one prompt are of, as one measure has them, by token."""
    names: dict[int, list[str]] = {}
    if "place_start" not in prompt_data:
        return names
    places = prompt_data["place"].values.tolist()
    starts, stops = prompt_data["place_start"].values.tolist(), prompt_data["place_stop"].values.tolist()
    for name, first, stop in zip(places, starts, stops):
        for token in range(max(first, 0), stop):
            names.setdefault(token, []).append(str(name))
    return names


def place_names_in_run(run: Run, prompt: int) -> dict[int, list[str]]:
    """Return the names of the places of a prompt in all measures of a run, by token, each name once."""
    together: dict[int, list[str]] = {}
    for measure in run:
        data = run[measure]
        if "place_start" not in data or prompt not in data["prompt"].values:
            continue
        for token, names in place_names(data.sel(prompt=prompt)).items():
            earlier = together.setdefault(token, [])
            earlier += [name for name in names if name not in earlier]
    return together
