"""``python -m studies.instruments``."""

import sys

from studies.common.program import main
from studies.instruments.command import app

if __name__ == "__main__":
    sys.exit(main(None, app, "python -m studies.instruments"))
