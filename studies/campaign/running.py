"""Runs stages one after another: each in a process of its own, with a line in the log, within a budget of hours.

A stage is done where it ended well and its record is there. One that was cut short goes on where it was, since
``reproduce`` keeps what is finished; one that failed is tried again the next time, and what it could measure is kept.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final

from bathyscope.errors import StoreError
from studies.campaign.stages import Machine, Stage

_LOG: Final = "campaign.jsonl"
_HOUR: Final = 3600.0
_LAST_LINES: Final = 3


@dataclass(frozen=True)
class Campaign:
    """A folder with the runs, the records and the log of a campaign.

    Args:
        out: the folder.
        further: arguments of every ``reproduce``, such as ``--device cuda --data DATA``.
    """

    out: Path
    further: tuple[str, ...] = ()

    @property
    def records(self) -> Path:
        """The folder of the records, one a stage."""
        return self.out / "records"

    def record(self, stage: Stage) -> Path:
        """Return the file of a stage's numbers."""
        return self.records / f"{stage.name}.json"

    def is_done(self, stage: Stage) -> bool:
        """Return whether a stage ended well and its numbers are there."""
        codes = [entry["code"] for entry in self.log() if entry["stage"] == stage.name]
        return codes[-1:] == [0] and self.record(stage).is_file()

    @property
    def hours(self) -> float:
        """Hours that all stages together have run."""
        return sum(float(entry["seconds"]) for entry in self.log()) / _HOUR

    def log(self) -> list[dict[str, Any]]:
        """Return the lines of the log: stage, exit code, seconds and the last words of each call, in order.

        Raises:
            StoreError: it is damaged.
        """
        path = self.out / _LOG
        try:
            lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
            return [json.loads(line) for line in lines]
        except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
            raise StoreError(f"{path} cannot be read ({error}); move it away, and the records stay.") from error

    def failures(self) -> dict[str, str]:
        """Return the last words of every stage that failed the last time it ran."""
        last = {str(entry["stage"]): entry for entry in self.log()}
        return {name: str(entry["words"]) for name, entry in last.items() if entry["code"] != 0}

    def run(self, stages: Sequence[Stage], machine: Machine, budget: float, announce: Callable[[str], None]) -> None:
        """Run what is left, as long as the next stage should fit into the budget.

        Args:
            budget: hours of all calls together, those of earlier ones included.

        Raises:
            KeyboardInterrupt: Ctrl-C or SIGTERM; the stage that ran was told, and keeps what is finished.
            StoreError: the folder cannot be written.
        """
        self.records.mkdir(parents=True, exist_ok=True)
        for stage in stages:
            if self.is_done(stage):
                continue
            needed = stage.hours(machine)
            if self.hours + needed > budget:
                announce(
                    f"{stage.name} should take {needed:.1f} h, and {max(0.0, budget - self.hours):.1f} h of "
                    f"{budget:g} h are left; give --budget-hours more."
                )
                continue
            announce(f"{stage.name}: about {needed:.1f} h")
            code, words = self._call(stage)
            if code:
                announce(f"{stage.name} ended with code {code}: {words}")

    def _call(self, stage: Stage) -> tuple[int, str]:
        arguments = [
            *stage.arguments(str(self.records), str(self.out / "runs")),
            *self.further,
            "--quiet",
            "--format",
            "json",
        ]
        command = [sys.executable, "-m", "bathyscope", "reproduce", *arguments]
        begun, code, words = time.monotonic(), 1, "cut short"
        try:
            with _told_to_end() as child:
                process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                child.append(process)
                printed, errors = process.communicate()
            code = process.returncode
            words = " ".join([*errors.strip().splitlines()[-_LAST_LINES:], *_reasons(printed)])
        finally:
            entry = {"stage": stage.name, "code": code, "seconds": time.monotonic() - begun, "words": words}
            with (self.out / _LOG).open("a", encoding="utf-8") as log:
                log.write(json.dumps(entry) + "\n")
        return code, words


def _reasons(printed: str) -> list[str]:
    """Return why numbers are missing, as ``reproduce --format json`` says of each; nothing where it printed no JSON."""
    try:
        document = json.loads(printed)
    except json.JSONDecodeError:
        return []
    rows = [row for value in document.values() if isinstance(value, list) for row in value if isinstance(row, dict)]
    return list(dict.fromkeys(str(row["reason"]) for row in rows if row.get("reason")))


@contextmanager
def _told_to_end() -> Iterator[list[subprocess.Popen[str]]]:
    """Pass Ctrl-C and SIGTERM on to the running stage, wait until it has stored what it finished, then end."""
    children: list[subprocess.Popen[str]] = []

    def end(number: int, frame: FrameType | None) -> None:
        for child in children:
            child.terminate()
            child.wait()
        raise KeyboardInterrupt("Interrupted; the same command goes on with what is left.")

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield children
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
