"""What the records are measured on, and the rows of a survey with its untrained controls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bathyscope.extend import bundled_model
from bathyscope.extend.prompts import bundled_prompts
from studies.real_model.models import GEMMA3, SMOLLM2

if TYPE_CHECKING:
    from bathyscope import Run

BUNDLED: Final = "bundled model"
CONTROLS: Final = 3
MEASURES: Final = ("residual", "lens")
_CHECKPOINTS: Final = Path(__file__).resolve().parents[2] / "checkpoints"
_PROBLEMS: Final = "problems:24?steps=1-6"
_PERMUTATIONS: Final = "task:permutations:24?factors=1-8&beyond=9-9&elements=generators&answer=image"
_GSM8K: Final = "gsm8k:5"


@dataclass(frozen=True)
class Subject:
    """A model that is measured.

    Args:
        name: in the records.
        model: a folder, or the name of the bundled model.
        prompts: what it reads.
        file: of which the prompts are taken, below the folder with the data; empty = they are made, or a file of
            the package.
    """

    name: str
    model: str
    prompts: str
    file: str = ""

    def source(self, data: Path) -> str:
        """Return the prompts with the place of their file."""
        if self.name == BUNDLED:
            return str(bundled_prompts())
        return f"{self.prompts}@{data / self.file}" if self.file else self.prompts


def _checkpoint(name: str, prompts: str) -> Subject:
    return Subject(name, str(_CHECKPOINTS / name), prompts)


SUBJECTS: Final = (
    Subject(BUNDLED, str(bundled_model()), "bundled prompts"),
    *(_checkpoint(f"depth_{blocks}", _PROBLEMS) for blocks in (6, 12, 24)),
    *(_checkpoint(f"permutations_{blocks}", _PERMUTATIONS) for blocks in (2, 8, 12)),
    Subject(SMOLLM2.name, str(SMOLLM2.folder), _GSM8K, "gsm8k/test_first600.jsonl"),
    Subject(GEMMA3.name, str(GEMMA3.folder), _GSM8K, "gsm8k/test_first600.jsonl"),
)


def rows_of(run: Run, subject: Subject) -> Iterator[dict[str, Any]]:
    """Yield the rows of a survey and of its controls, as the package keeps them."""
    for name, kind, one in (
        (subject.name, "trained", run),
        *((f"{subject.name}, {label}", "untrained", control) for label, control in run.controls.items()),
    ):
        frame = one.among().to_dataframe()
        for row in frame[frame["kind"] == "run"].to_dict("records"):
            changed = {"model": name, "kind": kind, "data": subject.prompts, "source": "bathyscope"}
            yield {str(key): value for key, value in row.items()} | changed
