"""``bathyscope fit-lens``: a Jacobian lens of a model, as a file."""

from pathlib import Path
from typing import Any

import bathyscope
from bathyscope.cli.arguments import LOADING, ModelName, Quiet, ResultFormat, make_app, run_on_models
from bathyscope.cli.commands.survey import Sources, read_source
from bathyscope.cli.printing import print_result
from bathyscope.core.paths import require_writable
from bathyscope.measures.options import FitLensOptions, require_ending

_EXAMPLES = """\
Examples:
  bathyscope fit-lens gpt2 --prompts "book.txt:100?window=128" --out gpt2.safetensors
  bathyscope survey gpt2 --prompts gsm8k:20 --measures jacobian_lens --jacobian-lens.lens gpt2.safetensors"""


def fit_lens_command(
    model: ModelName,
    /,
    *,
    prompts: Sources,
    out: Path,
    format: ResultFormat = "table",
    quiet: Quiet = False,
    **options: Any,
) -> int:
    """Fit a Jacobian lens to some prompts; an interrupted fit goes on by the same command.

    Args:
        out: the file to write (.safetensors).
    """
    require_ending(out, "out")
    source = read_source(prompts, out)
    require_writable(out)
    lens = run_on_models(bathyscope.fit_lens, [model], source, options=options, quiet=quiet, out=out)
    print_result(lens, format)
    return 0


app = make_app(fit_lens_command, _EXAMPLES, FitLensOptions, loading=LOADING)
