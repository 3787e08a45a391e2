"""``python -m studies.nulls``: the whole table, or what is left of it."""

import sys

from studies.common.program import main
from studies.nulls.command import app

if __name__ == "__main__":
    sys.exit(main(None, app, "python -m studies.nulls"))
