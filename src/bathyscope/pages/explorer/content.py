"""The data of a page's views: blocks, prompts, tokens and maps of one run, as compressed text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product, takewhile
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import xarray as xr

from bathyscope.core.text import elided, legible, visible
from bathyscope.errors import PromptError, StoreError
from bathyscope.pages.explorer.pack import Pack
from bathyscope.pages.figures.kit.texts import name_place
from bathyscope.pages.head.answer import CHEAP
from bathyscope.pages.head.numbers import count_blocks
from bathyscope.prompts.parts import COPY_OF, resampled
from bathyscope.prompts.prompts import words_of
from bathyscope.runs.by_place import by_block, check_whole_depth
from bathyscope.runs.named_places import place_names_in_run

if TYPE_CHECKING:
    from bathyscope.runs.run import Run

_LETTERS: Final = 200
"""Letters of names and labels; longer ones are cut."""
_MAPS_OF: Final = 16
"""Prompts with their own maps."""
_TOKENS_OF_MAPS: Final = 256
_REDUCTIONS: Final = ("mean", "p95")
"""Without the maximum, which grows with the number of tokens and prompts."""
_UNKNOWN: Final = -1
"""In the place of a token id where nothing was read."""
_TIE: Final = 1e-5
"""Relative rounding of two probabilities of one token."""
_EXCERPTS: Final = 1000
"""Prompts with their first words in the list."""
_EXCERPT_LETTERS: Final = 90
_SHORTEST_COMMON: Final = 12
"""A shared beginning of at least this many letters is left out."""
_ABOUT: Final = {
    "tokens": "length of the prompt",
    "loss": "mean loss of its tokens, in nats",
    "depth, half": "blocks done from where half of its tokens keep their prediction",
    "depth, readable": "blocks done until its tokens are final, on average",
    "depth, own": "blocks done until 90 % of what leaving out single blocks changes of its output",
    "depth, later": "blocks done until 90 % of what leaving out single blocks changes of its later tokens",
}
_BETWEEN: Final = tuple(product(("skip", "direct"), ("effect_future", "effect_all")))
_AT_TOKENS: Final = {
    "erasure": ("effect", "boundary", "change of the output"),
    "integrated_gradients": ("attribution", "block", "attribution"),
}
"""Measure → its variable, the rows of its maps, and the quantity that they show."""
_CHANGE: Final = "relative change of a contribution"
_FIRST: Final = f"the page holds maps of the first {_MAPS_OF} prompts"


def content(run: Run, name: str, *, text: bool = True, cluster: str | None = None) -> str:
    """Return a run's data for its page, as compressed text.

    Args:
        name: of the run on the page.
        text: include the words of prompts and predictions; False = only token ids.
        cluster: label of prompts that are resampled as one.

    Raises:
        OptionError: a run with only some of its blocks; a label that makes no clusters.
    """
    check_whole_depth(run)
    if cluster is not None:
        run.prompts.clusters(cluster)
    pack = Pack()
    meta = {
        "name": legible(name),
        "cheap": CHEAP,
        "resampled": legible(resampled(cluster)),
        "blocks": [
            {
                "key": values.key,
                "label": values.label,
                "units": values.units,
                "places": list(values.places),
                "mean": values.mean.tolist(),
                "low": [interval.low for interval in values.intervals],
                "high": [interval.high for interval in values.intervals],
            }
            for values in by_block(run, cluster)
        ],
        "prompts": _describe_prompts(run) | {"excerpts": _list_excerpts(run) if text else None},
        "tokens": _pack_tokens(run, pack, text),
        "specials": _list_specials(run),
        "maps": [*_pack_block_maps(run, pack), *_pack_token_maps(run, pack)],
        "pieces": _list_pieces(run, text),
        "places": _list_places(run) if text else {},
        "nBlocks": count_blocks(run),
    }
    return pack.text(meta)


def _describe_prompts(run: Run) -> dict[str, Any]:
    """Return names and labels of the prompts, and the numbers to sort them by."""
    dataset = next((run[name] for name in run if "prompt_id" in run[name].coords and name != "tokens"), None)
    if dataset is None:
        return {"ids": [], "labels": {}, "numbers": []}
    hidden = ("prompt", COPY_OF)
    names = {str(n): c.values.tolist() for n, c in dataset.coords.items() if c.dims == ("prompt",) and n not in hidden}
    ids = [elided(name, _LETTERS) for name in names.pop("prompt_id")]
    lengths = names.pop("n_tokens", None)
    labels = {legible(name): [elided(value, _LETTERS) for value in values] for name, values in names.items()}
    numbers = [{"label": "tokens", "digits": 0, "values": lengths}] if lengths is not None else []
    for label, values in _list_prompt_numbers(run):
        numbers.append({"label": label, "digits": 2, "values": values.tolist()})
    for number in numbers:
        number["about"] = _ABOUT[str(number["label"])]
    return {"ids": ids, "labels": {k: v for k, v in labels.items() if len(set(v)) > 1}, "numbers": numbers}


def _list_excerpts(run: Run) -> list[str] | None:
    """Return the first words of each prompt from where the prompts differ; None where the text is unknown."""
    try:
        prompts = run.prompts
        texts = ["".join(words_of(prompts, number)) for number in range(min(len(prompts), _EXCERPTS))]
    except (PromptError, StoreError):
        return None
    # Prompts of one data set often begin with the same instruction, which tells none of them from the others.
    # What the first and the last in the order of the alphabet share, all share.
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(min(texts), max(texts))))
    start = texts[0].rfind(" ", 0, shared) + 1 if len(texts) > 1 and shared >= _SHORTEST_COMMON else 0
    before = "… " if start else ""
    return [elided(before + " ".join(text[start:].split()), _EXCERPT_LETTERS) for text in texts]


def _list_prompt_numbers(run: Run) -> Iterator[tuple[str, np.ndarray]]:
    if "drop" in run and "baseline_loss" in run["drop"]:
        yield "loss", run["drop"]["baseline_loss"].values
    elif "lens" in run and "cross_entropy" in run["lens"] and "norm" not in run["lens"].dims:
        yield "loss", run["lens"]["cross_entropy"].isel(boundary=-1).values
    if run.judged:
        verdict = run.verdict
        for reading in (verdict.half, verdict.readable, verdict.own, verdict.later):
            if not np.isnan(reading.by_prompt).all():
                yield f"depth, {reading.name}", reading.by_prompt


def _list_pieces(run: Run, text: bool) -> dict[str, list[str]] | None:
    """Return the tokens' text of the prompts with their own views; None where it is not shown."""
    if not text:
        return None
    try:
        prompts = run.prompts
        lengths = dict.fromkeys(range(min(len(prompts), _MAPS_OF)), _TOKENS_OF_MAPS)
        if "tokens" in run:
            width = run["tokens"].sizes["token"]
            lengths |= {
                number: max(width, lengths.get(number, 0)) for number in run["tokens"]["prompt"].values.tolist()
            }
        return {
            # Lines end where those of the text end; nothing else in it acts.
            str(number): [_cut(legible(piece, "\n\t")) for piece in prompts.pieces(number)[:length]]
            for number, length in lengths.items()
        }
    # Runs stored without their prompts have no words.
    except (PromptError, StoreError):
        return None


def _cut(text: str) -> str:
    return text if len(text) <= _LETTERS else f"{text[: _LETTERS - 1]}…"


def _list_specials(run: Run) -> dict[str, list[int]]:
    """Return the places of special tokens of the prompts with tokens, by prompt; runs may not say which they are."""
    if "tokens" not in run:
        return {}
    try:
        prompts = run.prompts
        return {str(number): list(prompts.specials(number)) for number in run["tokens"]["prompt"].values.tolist()}
    except StoreError:
        return {}


def _list_places(run: Run) -> dict[str, dict[str, str]]:
    """Return the names of places that somebody named, by prompt and token; of prompts with their own views."""
    if not any("place_start" in run[measure] for measure in run):
        return {}
    by_prompt = {number: place_names_in_run(run, number) for number in _viewed_prompts(run)}
    return {
        str(number): {str(token): " ".join(map(name_place, names)) for token, names in sorted(by_token.items())}
        for number, by_token in by_prompt.items()
        if by_token
    }


def _viewed_prompts(run: Run) -> list[int]:
    """Return the prompts with maps or words of their own."""
    with_words = run["tokens"]["prompt"].values.tolist() if "tokens" in run else []
    return list(dict.fromkeys([*range(_MAPS_OF), *with_words]))


def _pack_tokens(run: Run, pack: Pack, text: bool) -> dict[str, Any] | None:
    """Pack the values of single tokens, without padding, prompt after prompt."""
    if "tokens" not in run or run["tokens"].sizes.get("token", 0) == 0 or run["tokens"].sizes["prompt"] == 0:
        return None
    data = run["tokens"]
    # the views count boundaries, and stored states may lack some
    if data["boundary"].values.tolist() != list(range(data.sizes["boundary"])):
        return None
    lengths = np.minimum(data["n_tokens"].values, data.sizes["token"])
    # Padding would be most of the page where one prompt is much longer than the others.
    real = np.arange(data.sizes["token"]) < lengths[:, None]

    def flat(name: str, *dims: str) -> np.ndarray:
        return np.asarray(data[name].transpose(*dims, "prompt", "token").values[..., real])

    # The likeliest tokens, and behind them those of the Jacobian lens where it was measured.
    ids = flat("top_id", "top", "boundary")
    has_jacobian = "jacobian_id" in data
    named = np.concatenate([ids, flat("jacobian_id", "boundary")[None]]) if has_jacobian else ids
    token_ids, number, count = np.unique(named, return_inverse=True, return_counts=True)
    # Frequent words get the smallest numbers, whose high bytes are 0 and compress to almost nothing.
    order = np.argsort(-count, kind="stable")
    words = np.argsort(order)[number].reshape(named.shape)
    pack.add("topWord", words[: len(ids)], "whole")
    pack.add("topProbability", flat("top_probability", "top", "boundary"), "permille")
    if has_jacobian:
        pack.add("jacobianWord", words[-1], "whole")
        pack.add("jacobianProbability", flat("jacobian_probability", "boundary"), "permille")
    pack.add("hit", np.concatenate(_find_hits(run, data, lengths)), "whole")
    for key, name in (("kl", "kl_final_lens"), ("entropy", "entropy"), ("next", "next_probability")):
        pack.add(key, flat(name, "boundary"), "f16")
    dropped = []
    if "added_loss" in data:
        dropped = data["dropped"].values.tolist()
        pack.add("added", flat("added_loss", "dropped"), "f16")
    return {
        "prompts": data["prompt"].values.tolist(),
        "lengths": lengths.tolist(),
        "whole": data["n_tokens"].values.tolist(),
        "jacobian": has_jacobian,
        "boundaries": data.sizes["boundary"],
        "dropped": dropped,
        "words": _write_words(data, token_ids[order], text),
    }


def _find_hits(run: Run, data: xr.Dataset, lengths: np.ndarray) -> list[np.ndarray]:
    """Return by prompt, for each token, whether the final guess made there is the text's next token."""
    final = data[["top_id", "top_probability", "next_probability"]].isel(top=0, boundary=-1)
    prompts, hits = run.prompts, []
    for place, number in enumerate(data["prompt"].values.tolist()):
        length = int(lengths[place])
        values = final.isel(prompt=place, token=slice(length))
        try:
            # Nothing follows the last token, so its guess is of no word of the text.
            following = [*prompts[number].ids[1 : length + 1], _UNKNOWN - 1]
            hits.append(values["top_id"].values == np.array(following[:length]))
        except StoreError:
            # A run without its prompts' ids: the likeliest token is the next one where it has its probability.
            gap = values["top_probability"] - values["next_probability"]
            hits.append((gap <= _TIE * values["top_probability"]).values)
    return hits


def _write_words(data: xr.Dataset, ids: np.ndarray, text: bool) -> list[str]:
    """Write each token id as visible text, or as its number where the text is unknown or hidden."""
    pieces: Mapping[int, str] = {}
    if text and "piece" in data:
        pieces = dict(zip(data["id"].values.tolist(), data["piece"].values.tolist()))
    return [
        "–" if token == _UNKNOWN else visible(pieces[token]) if token in pieces else str(token)
        for token in ids.tolist()
    ]


def _pack_block_maps(run: Run, pack: Pack) -> Iterator[dict[str, Any]]:
    for measure, name in _BETWEEN:
        if measure in run and name in run[measure]:
            values = run[measure][name]
            if "part" in values.dims:
                if "block" not in values["part"].values:
                    continue
                values = values.sel(part="block")
            reductions = [reduction for reduction in _REDUCTIONS if reduction in values["reduction"].values]
            values = values.sel(reduction=reductions).transpose("reduction", "prompt", "skipped", "block")
            key = f"{measure}-{name.replace('_', '-')}"
            pack.add(f"{key}-mean", values.mean("prompt"), "f24")
            pack.add(f"{key}-each", values.values[:, :_MAPS_OF], "f24")
            yield {
                "key": key,
                "label": f"{measure}: {'later tokens' if name.endswith('future') else 'all tokens'}",
                "quantity": _CHANGE,
                "measured": int(values.notnull().any(["reduction", "skipped", "block"]).sum()),
                "others": _FIRST,
                "units": str(values.attrs.get("units", "")),
                "rows": "block left out",
                "columns": "block",
                "reductions": reductions,
                "prompts": list(range(min(_MAPS_OF, values.sizes["prompt"]))),
            }


def _pack_token_maps(run: Run, pack: Pack) -> Iterator[dict[str, Any]]:
    for measure, (name, rows, quantity) in _AT_TOKENS.items():
        if measure not in run or name not in run[measure] or "token" not in run[measure][name].dims:
            continue
        values = run[measure][name]
        # a place of several tokens is measured as a whole, and a map of tokens has no value for it
        several = "has no named place of a single token, " if "place_start" in run[measure] else ""
        kinds: Sequence[Any] = values["site"].values.tolist() if "site" in values.dims else [""]
        for kind in kinds:
            map_values = values.sel(site=kind) if kind else values
            map_values = map_values.transpose("prompt", rows, "token").isel(
                prompt=slice(_MAPS_OF), token=slice(_TOKENS_OF_MAPS)
            )
            measured = [int(n) for n in np.flatnonzero(map_values.notnull().any([rows, "token"]).values)]
            if not measured:
                continue
            key = f"{measure}{'-' if kind else ''}{kind}".replace("_", "-")
            pack.add(f"{key}-each", map_values.values[measured][None], "f24")
            yield {
                "key": key,
                "label": f"{measure.replace('_', ' ')}{', ' if kind else ''}{kind}",
                "quantity": f"{quantity}{', ' if kind else ''}{kind}",
                "measured": len(measured),
                "others": f"it has no answer or is too long, {several}or {_FIRST}",
                "units": str(values.attrs.get("units", "")),
                "rows": rows,
                "columns": "token",
                "reductions": [""],
                "prompts": measured,
            }
