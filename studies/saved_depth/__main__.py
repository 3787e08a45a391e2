"""``python -m studies.saved_depth``: train, measure, page."""

import sys

from studies.common.program import main
from studies.saved_depth.command import app

if __name__ == "__main__":
    sys.exit(main(None, app, "python -m studies.saved_depth"))
