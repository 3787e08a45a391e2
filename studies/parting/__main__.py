"""``python -m studies.parting``: the whole experiment."""

import sys

from bathyscope.cli.main import main
from studies.parting.command import app

if __name__ == "__main__":
    sys.exit(main(None, app, "python -m studies.parting"))
