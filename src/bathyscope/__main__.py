"""``python -m bathyscope`` is the command ``bathyscope``."""

from __future__ import annotations

import sys

from bathyscope.cli import main

sys.exit(main())
