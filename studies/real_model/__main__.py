"""``python -m studies.real_model``: fetch, measure, page."""

import sys

from studies.common.program import main
from studies.real_model.command import app

if __name__ == "__main__":
    sys.exit(main(None, app, "python -m studies.real_model"))
