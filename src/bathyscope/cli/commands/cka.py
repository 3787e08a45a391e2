"""``bathyscope diff cka``: how alike the boundaries of two models are."""

from typing import Any

import bathyscope
from bathyscope.analysis.options import SimilarityOptions
from bathyscope.cli.arguments import LOADING, ModelName, Quiet, ResultFormat, load_models, make_app
from bathyscope.cli.commands.survey import Sources, read_source
from bathyscope.cli.console import quiet_libraries
from bathyscope.cli.flags import join_options
from bathyscope.cli.printing import print_result
from bathyscope.measures.registry import MEASURES

_EXAMPLES = """\
Examples:
  bathyscope diff cka gpt2 gpt2-medium --prompts gsm8k:20
  bathyscope diff cka ./base ./tuned --prompts "stories.txt:50?window=256" --format csv > cka.csv"""


def cka_command(
    model: ModelName,
    other: str,
    /,
    *,
    prompts: Sources,
    format: ResultFormat = "table",
    quiet: Quiet = False,
    **options: Any,
) -> int:
    """Compare the boundaries of two models by linear CKA.

    Args:
        other: the second model.
    """
    source = read_source(prompts)
    first, second = load_models([model, other], options, quiet)
    with quiet_libraries(downloads=not quiet):
        result = bathyscope.cka(first, second, source, **options)
    print_result(result, format)
    return 0


app = make_app(
    cka_command,
    _EXAMPLES,
    join_options(SimilarityOptions, MEASURES["cka"].options_type),
    loading=LOADING,
)
