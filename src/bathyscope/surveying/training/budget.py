"""What surveys take of a training's time, predicted from the first of them.

How long a step takes is not known before the first one. So nothing is promised of it: it is said from which time of a
step on all surveys fit into their share.
"""

from __future__ import annotations

from dataclasses import dataclass

from bathyscope.core.text import duration


@dataclass(frozen=True)
class SurveyBudget:
    """The time that surveys may take.

    Args:
        seconds: of one survey.
        share: of all the time since the watch began that surveys may take; None = as much as they need.
    """

    seconds: float
    share: float | None = None

    def allows(self, taken: float, passed: float) -> bool:
        """Return whether one more survey leaves all of them within the share of the time when it ends.

        Args:
            taken: seconds of the surveys so far.
            passed: seconds since the watch began, these among them.
        """
        return self.share is None or taken + self.seconds <= self.share * (passed + self.seconds) * (1 + 1e-9)

    def least_interval(self) -> float:
        """Return from how many seconds between two surveys on each of them is allowed; 0 without a share.

        The second one decides: it pays for the first too, which comes before any training.
        """
        return 0.0 if self.share is None else 2 * self.seconds * (1 / self.share - 1)

    @staticmethod
    def rhythm(every: int) -> str:
        """Return how often a survey is due: ``every step``, ``every 500 steps``."""
        return "every step" if every == 1 else f"every {every:,} steps"

    def describe(self, due: int | None, every: int) -> str:
        """Return what all surveys will take, and when they fit.

        Args:
            due: how many are due, the first one among them; None = unknown.
            every: steps between two.
        """
        steps = "each step" if every == 1 else f"{every:,} steps"
        if due is None:
            text = f"One is due {self.rhythm(every)}, and takes about as long."
        elif due == 1:
            return "No other is due."
        else:
            text = f"{due} are due in all, which take about {duration(due * self.seconds)} together."
        if self.share is None:
            return text
        verb = "takes" if every == 1 else "take"
        return (
            f"{text} All of them fit into {100 * self.share:.3g} % of the time if {steps} {verb} at least "
            f"{duration(self.least_interval())}; if not, some are left out."
        )
