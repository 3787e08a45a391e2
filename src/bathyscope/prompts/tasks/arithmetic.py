"""Arithmetic questions in words, as csordas2025 trains on: ``Q: What is 1 - 3 - (63 + 7 - 60)? A: -12``."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from bathyscope.errors import OptionError
from bathyscope.prompts.tasks.arithmetic_modules import MODULES, ORIGINAL, Entropies
from bathyscope.prompts.tasks.drawing import DrawnProblem, Task, check_choice, level_range
from bathyscope.prompts.tasks.problem import Labels, Problem, Split

MOST_ENTROPY = 16
"""As in the original's training problems."""

_LOWER_BOUND = """\
None that grows: sums of many whole numbers, products and quotients are in uniform TC0 (Hesse, Allender & Barrington \
2002), which a transformer of fixed depth is not known to be unable to reach. Expressions nested without limit are at \
least as hard as Boolean formulas (complete for NC1, Buss 1987), but here they have at most 11 operations."""

_CONTROLS = """\
Answers are exact, by whole numbers and fractions. The problems held out for interpolation are others than those of \
training whatever the wording; extrapolation holds larger numbers (add_or_sub, mul, div) or more operations \
(add_sub_multiple, mul_div_multiple, mixed) than any training problem. Lengths are not balanced."""


@dataclass(frozen=True)
class ArithmeticOptions:
    """Options of arithmetic.

    Args:
        modules: those that take turns; the three without harder problems are left out of extrapolation.
        entropy: fewest and most decimal digits that the numbers of a training problem have together; extrapolation
            has up to two more. None = the original's ranges: 3 to 10, and 4 to 16 in add_or_sub.
    """

    modules: tuple[str, ...] = tuple(MODULES)
    entropy: tuple[int, ...] | None = None


class Arithmetic(Task[str]):
    """Problems of the arithmetic modules of DeepMind's mathematics data set (Saxton et al. 2019)."""

    name = "arithmetic"
    options_type = ArithmeticOptions
    lower_bound = _LOWER_BOUND
    controls = _CONTROLS

    def __init__(self, options: ArithmeticOptions) -> None:
        if not options.modules:
            raise OptionError(f"{self.name}: modules is empty; give at least one of {', '.join(MODULES)}.")
        for module in options.modules:
            check_choice(f"{self.name}: modules", module, tuple(MODULES))
        self._modules = tuple(dict.fromkeys(options.modules))
        self._sizes = ORIGINAL
        if options.entropy is not None:
            sizes = level_range(
                f"{self.name}: entropy", options.entropy, 2, MOST_ENTROPY, "digits of two numbers or more"
            )
            self._sizes = Entropies.within(sizes[0], sizes[-1])

    def levels(self, split: Split) -> Sequence[str]:
        if split != "extrapolate":
            return self._modules
        harder = [module for module in self._modules if MODULES[module].extrapolates]
        if not harder:
            able = [name for name, module in MODULES.items() if module.extrapolates]
            raise OptionError(
                f"{self.name}: {', '.join(self._modules)} have no harder problems to extrapolate to; those that have: "
                f"{', '.join(able)}."
            )
        return harder

    def draw(self, rng: random.Random, level: str, split: Split) -> DrawnProblem | None:
        is_hard = split == "extrapolate"
        drawn_problem = MODULES[level].draw(rng, is_hard, self._sizes)
        # Drawn at the larger size, a problem may still be small by chance: it belongs to no split of larger ones.
        if drawn_problem.is_hard != is_hard:
            return None
        labels: Labels = {
            "k": drawn_problem.operations,
            "module": level,
            "terms": drawn_problem.terms,
            "digits": drawn_problem.digits,
        }
        return DrawnProblem(
            Problem(as_question(drawn_problem.question), drawn_problem.answer, drawn_problem.steps, labels),
            drawn_problem.key,
        )


def as_question(words: str) -> str:
    """The frame of every question: ``Q: {words} A:``."""
    return f"Q: {words} A:"


def probes() -> tuple[Problem, ...]:
    """The four problems that csordas2025 looks at one by one, with right answers.

    The paper gives -15 for the second; its value is 15.
    """
    probes_of_paper = (
        ("What is ((-14)/(-6))/(1162/(-4980))?", "-10", "mul_div_multiple", 4),
        ("What is the value of -24 + -10 + 22 + 1 + 1 + 25?", "15", "add_sub_multiple", 6),
        ("What is 1 - 3 - (63 + 7 - 60)?", "-12", "add_sub_multiple", 5),
        ("(10/3)/((-8)/16)*(-90)/(-75)", "-8", "mul_div_multiple", 6),
    )
    return tuple(
        Problem(
            as_question(words), answer, None, {"task": "arithmetic", "k": terms - 1, "module": module, "terms": terms}
        )
        for words, answer, module, terms in probes_of_paper
    )
