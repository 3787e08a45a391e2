"""``python -m studies.problem_depth``: the whole experiment, or what is left of it."""

import sys

from studies.common.program import main
from studies.problem_depth.command import app

if __name__ == "__main__":
    sys.exit(main(None, app, "python -m studies.problem_depth"))
