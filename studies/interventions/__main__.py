"""``python -m studies.interventions``: measure, page."""

import sys

from studies.common.program import main
from studies.interventions.command import app

if __name__ == "__main__":
    sys.exit(main(None, app, "python -m studies.interventions"))
