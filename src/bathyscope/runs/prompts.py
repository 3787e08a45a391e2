"""The prompts of a run: a file next to its results, one JSON object a line, in the order of ``prompt``."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

import xarray as xr

from bathyscope.core.strict import DAMAGED, read_json
from bathyscope.errors import StoreError
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.prompts.prompts import COORDINATES, PromptRecord, Prompts, prompts_hash
from bathyscope.runs.folder import MOST_DEEP
from bathyscope.runs.manifest import Identity
from bathyscope.runs.merge import PROMPT

PROMPTS: Final = "prompts"
"""What the file is called among those of a run."""
PROMPTS_FILE: Final = "prompts.jsonl"


def encode_prompts(prompts: Prompts, text: bool) -> bytes:
    """Prompts as the content of the file.

    Args:
        text: keep the text of every token too; their ids are always kept.
    """
    lines = []
    for number, prompt in enumerate(prompts):
        line: dict[str, Any] = {"id": prompt.id, "dataset": prompt.dataset, "labels": dict(prompt.labels)}
        line |= {"answer_tokens": prompt.answer_tokens, "ids": prompt.ids, "specials": prompts.specials(number)}
        if text:
            line["pieces"] = prompts.pieces(number)
        lines.append(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")
    # A byte-level token may hold half a character, which decoding leaves as a lone surrogate.
    return "".join(lines).encode("utf-8", errors="replace")


def decode_prompts(content: bytes, identity: Identity) -> Prompts:
    """The prompts in the file of a run.

    Raises:
        StoreError: it is no such file.
    """
    try:
        lines = [read_json(line, MOST_DEEP) for line in content.decode().split("\n") if line]
        items = tuple(
            TokenizedPrompt(line["id"], tuple(line["ids"]), line["answer_tokens"], line["labels"], line["dataset"])
            for line in lines
        )
        pieces = tuple(tuple(line["pieces"]) for line in lines) if all("pieces" in line for line in lines) else None
        # Earlier versions stored no places of special tokens.
        has_specials = all("specials" in line for line in lines)
        specials = tuple(tuple(line["specials"]) for line in lines) if has_specials else None
        actual = prompts_hash(items)
    except DAMAGED as error:
        raise StoreError(
            f"The prompts of a run of {identity.model} on {identity.dataset} cannot be read "
            f"({type(error).__name__}: {error}). Restore {PROMPTS_FILE} from a copy, or survey again."
        ) from error
    if actual != identity.prompt_hash:
        raise StoreError(
            f"{PROMPTS_FILE} of a run of {identity.model} on {identity.dataset} holds other prompts than were "
            f"measured: their hash is {actual[:16]}…, the run's {identity.prompt_hash[:16]}…. Restore it from a copy."
        )
    record = PromptRecord(identity.prompt_hash, identity.tokenizer_hash, pieces, specials)
    return Prompts(items, identity.dataset, record=record)


def remembered_prompts(datasets: Sequence[xr.Dataset], identity: Identity) -> Prompts:
    """What the coordinates of results tell of prompts: names, lengths, data sets and labels.

    Token ids are those of a run that does not keep them: they have a length, and looking at one is a StoreError.

    Raises:
        StoreError: no result has prompts.
    """
    coords_by_dataset = [
        {_own_name(str(name), dataset): c.values.tolist() for name, c in dataset.coords.items() if c.dims == (PROMPT,)}
        for dataset in datasets
        if PROMPT in dataset.sizes
    ]
    without = (
        f"The run of {identity.model} on {identity.dataset} was written before prompts were kept with runs, so that "
        "its token ids and texts are not known; survey again for them."
    )
    if not coords_by_dataset:
        raise StoreError(without)
    coords = max(coords_by_dataset, key=lambda prompt_coords: len(set(COORDINATES) & set(prompt_coords)))
    count = next(dataset.sizes[PROMPT] for dataset in datasets if PROMPT in dataset.sizes)
    names = coords.pop("prompt_id", range(count))
    lengths = coords.pop("n_tokens", [0] * count)
    sets = coords.pop("dataset", [identity.dataset] * count)
    coords.pop(PROMPT, None)
    items = tuple(
        TokenizedPrompt(str(name), _LostIds(int(length), without), None, _labels_of(coords, number), str(dataset))  # type: ignore[arg-type]
        for number, (name, length, dataset) in enumerate(zip(names, lengths, sets))
    )
    return Prompts(items, identity.dataset, record=PromptRecord(identity.prompt_hash, identity.tokenizer_hash, None))


class _LostIds(Sequence[int]):
    """Token ids of which only the number is known."""

    def __init__(self, length: int, refusal: str) -> None:
        self._length = length
        self._refusal = refusal

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: object) -> NoReturn:
        raise StoreError(self._refusal)

    def __repr__(self) -> str:
        return f"<{self._length} token ids that the run does not keep>"


def _own_name(name: str, dataset: xr.Dataset) -> str:
    """A label's name; where a result has taken it, the label's begins with ``prompt_``."""
    label = name.removeprefix("prompt_")
    return label if label in dataset.sizes or label in dataset.data_vars else name


def _labels_of(labels: Mapping[str, Sequence[Any]], number: int) -> dict[str, Any]:
    """Labels of one prompt; results fill what a prompt does not have with NaN and empty texts."""
    label_of = {name: values[number] for name, values in labels.items()}
    return {name: value for name, value in label_of.items() if value != "" and value == value}
