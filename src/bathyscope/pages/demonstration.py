"""The bundled prompts on the bundled model, without a network; or on a real model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from bathyscope.core.cache import stored_gemma3, stored_smollm2
from bathyscope.core.calls import checked
from bathyscope.core.common_options import FOLDER_OF_DEMO, RealModelName
from bathyscope.core.paths import given_path, require_writable
from bathyscope.errors import ModelError, OptionError
from bathyscope.model.bundled import model_path, prompts_path
from bathyscope.runs.run import Run

if TYPE_CHECKING:
    from bathyscope.model import Model

MEASURES = ("residual", "lens", "skip", "drop", "swap", "repeat", "tokens", "effective_depth")

REAL_MEASURES = ("residual", "lens", "skip", "drop", "tokens", "effective_depth")


@dataclass(frozen=True)
class PretrainedDemo:
    """A pretrained model that the demo surveys.

    Args:
        hub: its name on the hub.
        stored: the folder in which a checkout stores it, unpacked from fewer bits.
        name: what pages call that copy.
        fetch: the command that stores it.
        cost: what surveying it takes.
    """

    hub: str
    stored: Callable[[], Path]
    name: str
    fetch: str
    cost: str


REAL: Final[Mapping[RealModelName, PretrainedDemo]] = {
    "smollm2": PretrainedDemo(
        "HuggingFaceTB/SmolLM2-135M-Instruct",
        stored_smollm2,
        "SmolLM2-135M-Instruct unpacked from Q4_1",
        "python -m studies.real_model fetch",
        "270 MB to download unless stored, 1.7 GB of memory, about four minutes of one core",
    ),
    "gemma3": PretrainedDemo(
        "google/gemma-3-270m",
        stored_gemma3,
        "Gemma 3 270M unpacked from Q4_K_M",
        "python -m studies.real_model fetch --model gemma3 --accept-terms",
        "540 MB to download unless stored, under the Gemma Terms of Use, 2.9 GB of memory, "
        "about nine minutes of one core",
    ),
}


@checked
def demo(
    out: Annotated[str | Path, FOLDER_OF_DEMO] = Path("runs/demo"),
    *,
    real: bool = False,
    model: RealModelName | None = None,
    progress: bool = True,
    command: str | None = None,
) -> Run:
    """Survey the bundled model, or a real one, and write ``report.html`` into the run's folder.

    Args:
        real: survey a model of the hub; where the hub cannot be reached, the copy that
            ``python -m studies.real_model fetch`` has stored, whose weights were unpacked from four bits.
        model: which one, ``smollm2`` (SmolLM2-135M-Instruct) or ``gemma3`` (Gemma 3 270M); None = ``smollm2``.
        progress: show a progress bar on standard error if it takes long.
        command: the command line that resumes the run, for messages.

    Raises:
        OptionError: ``model`` without ``real``, or an unknown one.
        ModelError: the installation is incomplete; the real model is neither on the hub nor stored here.
        StoreError: the folder cannot be written, or holds another run.

    Example:
        >>> bathyscope.demo("runs/demo")  # doctest: +SKIP
    """
    pretrained = pretrained_model(real, model)
    from bathyscope.pages.page import report
    from bathyscope.prompts.source import resolve
    from bathyscope.surveying.engines import survey

    require_writable(given_path(out, "out"), holds="a run")
    loaded = _load_bundled_model() if pretrained is None else _load_pretrained(pretrained)
    prompts = replace(resolve(prompts_path()), dataset="bundled prompts")
    run = survey(loaded, prompts, REAL_MEASURES if real else MEASURES, out, progress=progress, command=command)
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


def pretrained_model(real: bool, model: RealModelName | None) -> PretrainedDemo | None:
    """Return the pretrained model that the demo surveys; None = the bundled one.

    Raises:
        OptionError: a model without ``real``.
    """
    if model is not None and not real:
        raise OptionError("model= (--model) says which pretrained model is surveyed; give real=True (--real) with it.")
    return REAL[model or "smollm2"] if real else None


def _load_pretrained(real: PretrainedDemo) -> Model:
    """Load the hub's weights, or the stored copy; the name on the page says which were measured."""
    from bathyscope.model import load
    from bathyscope.prompts.tokenizer import load_tokenizer

    try:
        return load(real.hub, dtype="float32")
    except ModelError as error:
        folder = real.stored()
        if not (folder / "config.json").is_file():
            raise ModelError(
                f"{real.hub} is not stored here and cannot be downloaded. Connect to the hub, or run "
                f"{real.fetch} in a checkout of bathyscope. The hub's answer: {error}"
            ) from error
    loaded = load(folder, dtype="float32", tokenizer=load_tokenizer(folder))
    return replace(loaded, name=real.name)
