from __future__ import annotations

import hashlib
from dataclasses import replace

from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.prompts.prompts import prompts_hash

FIRST = TokenizedPrompt("0", (5, 7), 1, {"level": 3, "by": "é"})
SECOND = TokenizedPrompt("1", (5, 7, 9))


def test_written_out_by_hand() -> None:
    lines = (
        b'{"answer_tokens":1,"id":"0","ids":[5,7],"labels":{"by":"\\u00e9","level":3}}\n'
        b'{"answer_tokens":null,"id":"1","ids":[5,7,9],"labels":{}}\n'
    )
    assert prompts_hash([FIRST, SECOND]) == hashlib.sha256(lines).hexdigest()


def test_every_part_counts() -> None:
    changed = [
        [SECOND, FIRST],
        [FIRST],
        [replace(FIRST, ids=(5, 8)), SECOND],
        [replace(FIRST, id="x"), SECOND],
        [replace(FIRST, answer_tokens=None), SECOND],
        [replace(FIRST, labels={"level": 4, "by": "é"}), SECOND],
    ]
    hashes = {prompts_hash(prompts) for prompts in ([FIRST, SECOND], *changed)}
    assert len(hashes) == 1 + len(changed)


def test_order_of_labels_does_not_count() -> None:
    assert prompts_hash([replace(FIRST, labels={"by": "é", "level": 3})]) == prompts_hash([FIRST])
