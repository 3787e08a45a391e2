"""``python -m studies.campaign``, or ``make campaign``: all stages, or what is left of them."""

import sys

from studies.campaign.command import app
from studies.common.program import main

if __name__ == "__main__":
    sys.exit(main(None, app, "python -m studies.campaign"))
