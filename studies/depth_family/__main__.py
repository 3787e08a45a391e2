"""``python -m studies.depth_family``: the whole experiment, or what is left of it."""

import sys

from studies.common.program import main
from studies.depth_family.command import app

if __name__ == "__main__":
    sys.exit(main(None, app, "python -m studies.depth_family"))
