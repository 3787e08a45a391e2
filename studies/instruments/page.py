"""Tables of ``docs/instruments.md``, written between marks from the stored results."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bathyscope.errors import OptionError
from studies.instruments.enough import NAMES

MARK: Final = "<!-- {name}: written by `python -m studies.instruments page`, do not edit -->"
END: Final = "<!-- end of {name} -->"
Results = Mapping[str, Any]


def rewrite(text: str, folder: Path) -> str:
    """Return the page with each of its tables written again; the tables without results stay empty.

    Raises:
        OptionError: the marks of a table are not there, once each and in order.
    """
    results = read_results(folder)
    for name, table in TABLES.items():
        begin, end = MARK.format(name=name), END.format(name=name)
        before, found, rest = text.partition(begin)
        _, found_end, after = rest.partition(end)
        if not found or not found_end:
            raise OptionError(f"The page has no place for {name}; give it the lines {begin!r} and {end!r}.")
        lines = table({key.removeprefix(f"{name}_"): value for key, value in results.items() if key.startswith(name)})
        text = "\n".join([f"{before}{begin}", "", *(lines or ["*Not measured yet.*"]), "", f"{end}{after}"])
    return text


def read_results(folder: Path) -> dict[str, Any]:
    """Return every stored row by the name of its file."""
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.json"))}


def lens_results(results: Results) -> dict[str, dict[str, Any]]:
    """Return the rows of lenses by model and label."""
    by_model: dict[str, dict[str, Any]] = {}
    for name, value in results.items():
        kind, _, rest = name.partition("_")
        if kind == "lenses":
            model, _, label = rest.partition("_")
            by_model.setdefault(model, {})[label] = value
    return by_model


def lens_tables(results: Results) -> list[str]:
    """KL of the readers by boundary with the paired gain, and what is known of each lens."""
    lines: list[str] = []
    for model, by_label in lens_results({f"lenses_{name}": value for name, value in results.items()}).items():
        if "trained" not in by_label:
            continue
        trained, untrained = by_label["trained"], [v for label, v in by_label.items() if label != "trained"]
        ends = (trained["band_first"], trained["band_last"])
        boundaries = sorted({*_some_boundaries(trained["n_blocks"]), *(int(end) for end in ends if end is not None)})
        lines += [
            f"**{model}**: {_band_text(trained)}. Untrained: {'; '.join(map(_band_text, untrained)) or 'not run'}.",
            "",
        ]
        rows = []
        for b in boundaries:
            readers = [trained["kl"].get(reader) for reader in ("lens", "translated", "jacobian")]
            rows.append(
                [
                    str(b),
                    *("–" if reader is None else interval_text(reader[b]) for reader in readers),
                    interval_text(trained["kl_lens_less_jacobian"][b]),
                    *(_range_of(untrained, "kl", reader, b) for reader in ("lens", "jacobian")),
                ]
            )
        heads = ["boundary", "plain", "translated", "Jacobian", "plain less Jacobian"]
        lines += [*_table([*heads, "plain, untrained", "Jacobian, untrained"], rows), ""]
        names = ("half_agreement", "half_agreement_rest", "identity_share", "sampling_error")
        rows = [
            [str(b), *(f"{_number(trained[name][b])} [{_range_of_lens(untrained, name, b)}]" for name in names)]
            for b in boundaries
        ]
        lines += [*_table(["boundary", "halves", "without identity", "identity's share", "sampling error"], rows), ""]
    return lines


def sampling_table(results: Results) -> list[str]:
    """Distance of sampled lenses from the exact one, and the error that they state, at three boundaries."""
    rows, heads = [], ["directions"]
    for value in results.values():
        boundaries = [1, len(next(iter(value["directions"].values()))["measured"]) // 2]
        boundaries.append(len(next(iter(value["directions"].values()))["measured"]) - 1)
        heads = ["directions", *(f"boundary {b}" for b in boundaries)]
        for count, errors in value["directions"].items():
            cells = (f"{errors['measured'][b]:.2f} ({errors['stated'][b]:.2f})" for b in boundaries)
            rows.append([f"{count} of {value['width']}", *cells])
    return _table(heads, rows) if rows else []


def choice_tables(results: Results) -> list[str]:
    """What each domain chooses, how surely, and what it costs on the others."""
    lines: list[str] = []
    for model, value in results.items():
        chosen = "; ".join(f"{domain}: {subset}" for domain, subset in value["choices"].items())
        share, (coverage, prompts) = value["chosen_again"], value["coverage"]
        lines += [
            f"**{model}** ({value['prompts'][0]} calibration and {value['prompts'][1]} test windows; {value['how']}). "
            f"Left out by {chosen}. The joint choice is chosen again in {share:.0%} of bootstraps. All intervals of "
            f"the table hold together in {coverage:.1%} of 300 draws of {prompts:.0f} windows a domain.",
            "",
        ]
        domains = list(dict.fromkeys(row["domain"] for row in value["transfer"]))
        by_cell = {(row["chosen_on"], row["domain"]): row for row in value["transfer"]}
        rows = [
            [chosen_on, *(_transfer_text(by_cell[chosen_on, domain]) for domain in domains)]
            for chosen_on in dict.fromkeys(row["chosen_on"] for row in value["transfer"])
        ]
        lines += [*_table(["chosen on", *(f"excess on {domain}" for domain in domains)], rows), ""]
    return lines


def writing_table(results: Results) -> list[str]:
    """Depth of what was written: its slope over steps, and its rank correlation with being right."""
    rows = []
    for model, value in results.items():
        for quantity, reading in value["readings"]["trained"].items():
            controls = [v[quantity] for label, v in value["readings"].items() if label != "trained"]
            rows.append(
                [
                    f"{model} ({value['right']} of {value['prompts']} right)",
                    quantity.replace("_", " "),
                    f"{reading['mean']:.2f}",
                    _with_p(reading["slope"]),
                    _span([c["slope"][0] for c in controls]),
                    _with_p(reading["correlation"]),
                    _span([c["correlation"][0] for c in controls]),
                ]
            )
    heads = ["model", "quantity", "mean", "for each step", "untrained", "correlation with right", "untrained"]
    return _table(heads, rows)


def enough_table(results: Results) -> list[str]:
    """Coverage and prompts of surveys until they are sure, next to forty prompts fixed."""
    rows = []
    for model, value in results.items():
        for row in value["rows"]:
            low, high = row["prompts_p10_p90"]
            rows.append(
                [
                    f"{model} ({value['population']})",
                    f"±{row['width']:g}",
                    f"{row['prompts']:.0f} ({low:.0f} to {high:.0f})",
                    f"{row['reached']:.0%}",
                    *(_share_text(row[f"within_{name}"]) for name in NAMES),
                    *(f"{row[f'coverage_{name}'][0]:.1%}" for name in NAMES),
                    f"{row['fixed_reached']:.0%}",
                    *(f"{row[f'fixed_coverage_{name}'][0]:.1%}" for name in NAMES),
                ]
            )
    heads = ["model (population)", "until", "prompts (10 to 90 %)", "reached", *(f"{name} ± width" for name in NAMES)]
    intervals = [f"{name}'s interval" for name in NAMES]
    return _table([*heads, *intervals, "40: reached", *(f"40: {name}" for name in NAMES)], rows)


TABLES: Final[Mapping[str, Callable[[Results], list[str]]]] = {
    "lenses": lens_tables,
    "sampling": sampling_table,
    "choices": choice_tables,
    "writing": writing_table,
    "enough": enough_table,
}


def interval_text(row: Sequence[float | None]) -> str:
    """Return a mean with its interval."""
    mean, low, high = row
    return "–" if mean is None else f"{mean:.2f} ({_number(low)} to {_number(high)})"


def _some_boundaries(n_blocks: int) -> list[int]:
    step = 2 if n_blocks <= 12 else 5
    return sorted({*range(0, n_blocks, step), n_blocks - 1})


def _band_text(value: Mapping[str, Any]) -> str:
    p = value["band_p"]
    if value["band_first"] is None:
        return f"no band (p = {_number(p)})"
    gain, low, high = (f"{value[f'band_gain{end}']:.2g}" for end in ("", "_low", "_high"))
    ends = [
        f"{value[end]:.0f} ({value[f'{end}_low']:.0f} to {value[f'{end}_high']:.0f})"
        for end in ("band_first", "band_last")
    ]
    return f"band from boundary {ends[0]} to {ends[1]}, gain {gain} nats ({low} to {high}), p ≤ {p:.2g}"


def _range_of(values: Sequence[Mapping[str, Any]], metric: str, reader: str, boundary: int) -> str:
    return _span([value[metric][reader][boundary][0] for value in values])


def _range_of_lens(values: Sequence[Mapping[str, Any]], name: str, boundary: int) -> str:
    return _span([value[name][boundary] for value in values])


def _transfer_text(row: Mapping[str, float]) -> str:
    return f"{row['transfer']:.3f} ({row['transfer_low']:.3f} to {row['transfer_high']:.3f})"


def _with_p(values: Sequence[float]) -> str:
    value, low, high, p = values
    if value != value:
        return "–"
    interval = "no interval" if low != low else f"{low:+.2f} to {high:+.2f}"
    return f"{value:+.2f} ({interval}), p = {p:.2g}"


def _share_text(values: Sequence[float]) -> str:
    share, low, high = values
    return f"{share:.1%} ({low:.0%} to {high:.0%})"


def _span(values: Sequence[float | None]) -> str:
    numbers = [value for value in values if value is not None and value == value]
    return "–" if not numbers else f"{min(numbers):.2f} to {max(numbers):.2f}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (headings, ["---"] * len(headings), *rows)]
