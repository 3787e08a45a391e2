"""``python -m bathyscope`` is the command ``bathyscope``."""

import sys

from bathyscope.cli import main

sys.exit(main())
