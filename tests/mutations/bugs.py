"""All small bugs that the tests must notice."""

from __future__ import annotations

import acting
import afterwards
import in_hand
import while_measuring
from bug import Bug

BUGS: tuple[Bug, ...] = (*while_measuring.BUGS, *afterwards.BUGS, *acting.BUGS, *in_hand.BUGS)
