"""All small bugs that the tests must notice."""

from __future__ import annotations

import acting
import afterwards
import asking
import copies
import differences
import headlines
import identities
import in_hand
import joins
import plans
import prepared
import promises
import results
import reviewers
import sentences
import stored
import tables
import while_measuring
import wordings
from bug import Bug

BUGS: tuple[Bug, ...] = (
    *while_measuring.BUGS,
    *afterwards.BUGS,
    *acting.BUGS,
    *asking.BUGS,
    *differences.BUGS,
    *headlines.BUGS,
    *identities.BUGS,
    *in_hand.BUGS,
    *copies.BUGS,
    *joins.BUGS,
    *plans.BUGS,
    *prepared.BUGS,
    *promises.BUGS,
    *results.BUGS,
    *reviewers.BUGS,
    *sentences.BUGS,
    *stored.BUGS,
    *tables.BUGS,
    *wordings.BUGS,
)
