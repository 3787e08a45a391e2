"""The bundled model on the bundled prompts, without any network."""

from dataclasses import replace
from pathlib import Path

from bathyscope.errors import ModelError
from bathyscope.model.bundled import model_path, prompts_path
from bathyscope.runs.run import Run

MEASURES = ("residual", "lens", "skip", "drop", "swap", "repeat", "tokens", "effective_depth")


def demo(out: str | Path = Path("runs/demo"), *, progress: bool = True, command: str | None = None) -> Run:
    """Surveys the bundled model and writes the run's page as ``report.html`` beside it.

    Args:
        out: folder of the run and its report.
        progress: show a progress bar on standard error when it takes long.
        command: the command line to resume by, for messages.

    Raises:
        ModelError: the installation is incomplete.
        StoreError: the folder cannot be written, or holds another run.

    Example:
        >>> bathyscope.demo("runs/demo")  # doctest: +SKIP
    """
    from bathyscope.model import load
    from bathyscope.pages.page import report
    from bathyscope.prompts.source import resolve
    from bathyscope.prompts.tokenizer import load_tokenizer
    from bathyscope.surveying.engines import survey

    folder = model_path()
    if not (folder / "config.json").is_file() or not prompts_path().is_file():
        raise ModelError(
            f"The bundled model is not in {folder}: this installation is incomplete. Install it again, "
            "or survey a model of your own (bathyscope survey --help)."
        )
    # in bfloat16 rounding would outweigh some effects; the name is the same wherever it is installed
    loaded = load(folder, dtype="float32", tokenizer=load_tokenizer(folder))
    model = replace(loaded, name="bundled model")
    prompts = replace(resolve(prompts_path()), dataset="bundled prompts")
    run = survey(model, prompts, MEASURES, out, progress=progress, command=command)
    report([run], Path(out) / "report.html")
    return run
