"""What an exported folder says of itself: a model card for people, and the same as data."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from bathyscope.core.text import json_in_markdown, literal_markdown, without_folders
from bathyscope.schedule import Schedule

RECORD = "bathyscope.json"
CARD = "README.md"


@dataclass(frozen=True)
class ExportRecord:
    """Where an export came from; equal records are the same export.

    Args:
        model: name or folder of the source.
        n_blocks: L of the source.
        order: the source's block in every slot of the copy.
        source: SHA-256 of the source's weights, by file, or of all of them where they were in memory.
        settings: SHA-256 of the source's settings.
        changes: SHA-256 of the weights that were changed (repair); empty where none were.
        version: of bathyscope.
    """

    model: str
    n_blocks: int
    order: tuple[int, ...]
    source: Mapping[str, str]
    settings: str
    version: str
    changes: Mapping[str, str] = field(default_factory=dict)

    def text(self) -> str:
        """Return the record as JSON; the same record gives the same text."""
        return json.dumps(asdict(self), indent=2, sort_keys=True) + "\n"


def is_same_export(text: str, record: ExportRecord) -> bool:
    """Return whether a folder's record is this one; the version and the source's name may differ."""
    try:
        stored: Any = json.loads(text)
    except ValueError:
        return False
    expected = {key: value for key, value in json.loads(record.text()).items() if key not in ("version", "model")}
    return isinstance(stored, dict) and all(stored.get(key) == value for key, value in expected.items())


def card(record: ExportRecord, loader: str, notes: Sequence[str], evidence: str) -> str:
    """Return the model card, in Markdown.

    Args:
        loader: the class of transformers that loads the checkpoint.
    """
    schedule = Schedule(record.order, record.n_blocks)
    dropped = sorted(set(range(record.n_blocks)) - set(record.order))
    lines = [
        "---",
        "library_name: transformers",
        f"base_model: {json_in_markdown(record.model)}",
        "tags: [depth-pruned]" if dropped else "tags: [depth-rearranged]",
        "---",
        "",
        f"# {literal_markdown(record.model)}, {schedule}",
        "",
        f"The blocks of {literal_markdown(record.model)} in the order {', '.join(map(str, record.order))}"
        + (f"; left out: {', '.join(map(str, dropped))}." if dropped else "."),
        "",
        "All other weights are the source's"
        + (", save those listed as changed in `bathyscope.json`." if record.changes else ", unchanged."),
        f"It loads with `transformers.{loader}.from_pretrained`; no other library is needed.",
        "",
        f"Written by bathyscope {record.version}.",
    ]
    if notes:
        lines += ["", "## Notes", "", *(f"- {literal_markdown(note)}" for note in notes)]
    if evidence:
        lines += ["", "## Evidence", "", evidence.strip()]
    lines += ["", "## Source", "", "| weights | SHA-256 |", "|---|---|"]
    lines += [f"| {literal_markdown(name)} | `{digest}` |" for name, digest in record.source.items()]
    return "\n".join([*lines, f"| settings | `{record.settings}` |", ""])


def on_data(act: str, prompts: Mapping[str, Any]) -> str:
    """Return which prompts something was done on, in Markdown.

    Args:
        act: what was done, such as "Chosen".
        prompts: their ``name`` and numbers of ``prompts`` and ``tokens``.
    """
    name = literal_markdown(without_folders(str(prompts["name"])))
    return f"{act} on {prompts['prompts']:,} prompts, {prompts['tokens']:,} tokens ({name})."
