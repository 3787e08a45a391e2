"""All small bugs that the tests must notice."""

from __future__ import annotations

import acting
import afterwards
import promises
import while_measuring
from bug import Bug

BUGS: tuple[Bug, ...] = (*while_measuring.BUGS, *afterwards.BUGS, *acting.BUGS, *promises.BUGS)
