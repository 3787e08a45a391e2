"""Whether what is left out keeps a model from ending what it writes, by everything that a plan has on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bathyscope.prompts.continued import MOST_CUT_OFF
from bathyscope.surgery.plan.answer_ends import AnswerEnds
from bathyscope.surgery.plan.task_table import cut_off_shares

if TYPE_CHECKING:
    from bathyscope.surgery.plan.plan import Plan


def stopping_losses(plan: Plan) -> list[str]:
    """Return, in clauses, where the model without the choice no longer ends what the full one ends; empty = nowhere.

    A twentieth of the answers may be lost by chance.
    """
    clauses = []
    ending = AnswerEnds.of(plan.data)
    if ending is not None and ending.lost > MOST_CUT_OFF * ending.ended:
        clauses.append(f"{ending.lost} of the {ending.ended} test answers that the full model ends no longer end")
    departure = plan.departure
    if departure is not None and departure.no_longer_end > MOST_CUT_OFF * sum(departure.full_ended):
        clauses.append(f"{departure.no_longer_end} of {sum(departure.full_ended)} texts that it ended no longer end")
    if plan.tasks_data is not None:
        clauses += [
            f"the limit of tokens ends {pruned:.0%} of the answers of {task} ({full:.0%} with the blocks)"
            for task, full, pruned in cut_off_shares(plan.tasks_data)
            if pruned - full > MOST_CUT_OFF
        ]
    return clauses
