"""Operands of a planted chain: the token d before the last is read, through those between, up to boundary n − d."""

from __future__ import annotations

import random

from bathyscope import Prompt, load, survey
from studies.planted import CONSTRUCTIONS
from studies.planted.wiring import FIRST, VOCABULARY

STEPS, TOKENS, PROMPTS = 5, 10, 24
READ = TOKENS - 2
"""The token that predicts the last one."""


def test_the_inputs_of_later_steps_leave_their_tokens_one_boundary_later_each() -> None:
    draw = random.Random(0)
    others = [token for token in range(VOCABULARY) if token != FIRST]
    operands = " ".join(str(token) for token in range(READ - STEPS + 1, READ))
    prompts = [
        Prompt(ids=[FIRST, *draw.choices(others, k=TOKENS - 1)], answer_tokens=1, labels={"operands": operands})
        for _ in range(PROMPTS)
    ]
    pairs = [[n, (n + 1) % PROMPTS] for n in range(PROMPTS)]
    model = load(CONSTRUCTIONS["identity"].build())
    found = survey(model, prompts, "patching", patching={"pairs": pairs}, progress=False)["patching"]
    # one symbol in the place of another may by chance change nothing; where it does, it does up to that boundary
    assert found["operand_left"].max("prompt").values.tolist() == [2, 3, 4, 5]
    # chance takes more from inputs that more steps pass on, so that what is found is a little above 1
    assert 1 <= float(found["operand_slope"]) < 1.5
    assert float(found["operand_slope_low"]) > 0.5
