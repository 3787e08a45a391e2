"""``bathyscope-lm-eval``: the command of lm-evaluation-harness, which knows ``--model bathyscope``."""

import sys

from bathyscope.errors import OptionError
from bathyscope.prompts.harness.loading import require_harness


def main() -> None:
    """Say what to install where the harness is not installed, and run its command."""
    try:
        require_harness()
    except OptionError as error:
        sys.exit(f"error: {error}")
    from bathyscope.surgery.benchmarks import harness_model

    harness_model.main()
