"""``python -m studies.records``: the records of the package, or what is left of them."""

import sys

from studies.common.program import main
from studies.records.command import app

if __name__ == "__main__":
    sys.exit(main(None, app, "python -m studies.records"))
