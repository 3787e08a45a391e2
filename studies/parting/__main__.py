"""``python -m studies.parting``: the whole experiment."""

import sys

from studies.common.program import main
from studies.parting.command import app

if __name__ == "__main__":
    sys.exit(main(None, app, "python -m studies.parting"))
