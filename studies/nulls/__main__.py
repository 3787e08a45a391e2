"""``python -m studies.nulls``: the whole table, or what is left of it."""

import sys

from bathyscope.cli.main import run
from studies.nulls.command import app

if __name__ == "__main__":
    sys.exit(run(app, "python -m studies.nulls"))
