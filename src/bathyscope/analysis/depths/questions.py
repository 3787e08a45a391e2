"""What is compared with what: any pairs of runs, or one of three questions after hu2025.

size: does the ratio change with the size of the model? reasoning: does training on long chains of thought change
it? difficulty: do harder data change it?
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from operator import itemgetter

from bathyscope.analysis.depths.cohorts import OTHER_MINUS_REFERENCE
from bathyscope.analysis.depths.side import ComparedPrompts
from bathyscope.errors import OptionError, did_you_mean
from bathyscope.model.identity import compare_models
from bathyscope.prompts.levels import DIFFICULTY_LABELS, difficulty_label
from bathyscope.prompts.order_faults import order_fault
from bathyscope.prompts.parts import level_name, members_by_value
from bathyscope.statistics.difference import slope_coefficients
from bathyscope.surveying.papers.hu2025 import DIFFICULTY, REASONING_PAIRS, difficulty_rank

Pairs = Sequence[tuple[int, int]]

# A part of a name between - _ . / that is a number of parameters, or of something else in the same units.
_BY_UNIT = re.compile(r"(\d+(?:[._]\d+)?)([MmBb])")
_UNIT_IN_PLACE_OF_POINT = re.compile(r"(\d+)([MmBb])(\d+)")
_SEPARATE = re.compile(r"[-/\s]+|(?<!\d)_|_(?!\d+[MmBb](?:[-_./\s]|$))")
_OF_TRAINING = re.compile(
    r"\d+(?:\.\d+)?[A-Za-z]?[_ ]?(?:tokens?|steps?)|(?:tokens?|steps?)[-_ ]?\d+(?:\.\d+)?[A-Za-z]?", re.IGNORECASE
)
"""How far training had come."""
_NO_SIZES = ("a", "e", "tok", "data", "ctx", "context", "v", "iter", "stage")
"""What numbers behind them count: active parameters, or something else."""
_SCALE = {"m": 1e6, "b": 1e9}


@dataclass(frozen=True)
class PlannedContrast:
    """One comparison: a contrast of the ratios of its sides, the first being the reference, the last the other."""

    label: str
    sides: tuple[ComparedPrompts, ...]
    coefficients: tuple[float, ...]

    @property
    def is_difference(self) -> bool:
        """Whether it has two sides, and is no slope."""
        return self.coefficients == OTHER_MINUS_REFERENCE

    @property
    def blocks(self) -> int | None:
        """L where it is the same for both of a difference, else None."""
        counts = {side.n_blocks for side in self.sides}
        return counts.pop() if len(counts) == 1 and self.is_difference else None


@dataclass(frozen=True)
class ComparisonPlan:
    """All planned contrasts, the quantity that they estimate, and what a reader must know about the choice."""

    contrasts: list[PlannedContrast]
    quantity: str
    notes: list[str]


DIFFERENCE = "difference of ratio"


def require_pairs(pairs: Pairs | None, question: str | None, all_pairs: bool) -> None:
    """Refuse pairs where something else says what is compared, before any run is read.

    Raises:
        OptionError: with what pairs go with.
    """
    if pairs is not None and (all_pairs or question in ("size", "difficulty")):
        raise OptionError(
            "Pairs (REFERENCE:OTHER) say themselves what is compared; they go alone or with question='reasoning'."
        )


def plan_comparisons(
    sides: Sequence[ComparedPrompts],
    question: str | None,
    *,
    pairs: Pairs | None,
    all_pairs: bool,
    by: str | None,
    against: str,
) -> ComparisonPlan:
    """What to compare (arguments: see :func:`bathyscope.analysis.depths.compare`)."""
    if len(sides) < 2 and question != "difficulty":
        raise OptionError(
            f"Only one run was given ({sides[0].name}); a comparison needs two or more. Within one run, levels of "
            "difficulty can be compared: question='difficulty' (--question difficulty)."
        )
    if question == "size":
        return _size(sides, against)
    if question == "reasoning":
        return _reasoning(sides, pairs)
    if question == "difficulty":
        return _difficulty(sides, by)
    return _differences(sides, pairs, all_pairs)


def parameters_of(model: str) -> float | None:
    """Number of parameters as a model's name tells it (``Qwen2.5-1.5B`` → 1.5e9); None where it does not.

    It is a part of the name of its own: millions or billions (``410m``, ``1_6b``, ``7b1``), not what a checkpoint was
    trained on (``tokens294B``, ``3T``, ``1431k``). Of two different ones none is chosen, nor where a mixture's name
    counts experts (``8x7B``) or, alone, the active parameters (``A2.7B``); of ``30B-A3B`` the first.
    """
    sizes = {size for part in _SEPARATE.split(_OF_TRAINING.sub(" ", model)) if (size := _size_in(part)) is not None}
    if len(sizes) != 1 or re.search(r"\d[xX]\d", model):
        return None
    return sizes.pop()


def _size_in(part: str) -> float | None:
    """Return the size that a part of a name is, or ends with (``stories15M``); None where it is none."""
    if match := _UNIT_IN_PLACE_OF_POINT.fullmatch(part):
        whole, unit, rest = match.groups()
        return float(f"{whole}.{rest}") * _SCALE[unit.lower()]
    match = re.fullmatch(r"([A-Za-z]*?)" + _BY_UNIT.pattern, part)
    if match is None or match[1].lower() in _NO_SIZES:
        return None
    return float(match[2].replace("_", ".")) * _SCALE[match[3].lower()]


def _differences(sides: Sequence[ComparedPrompts], pairs: Pairs | None, all_pairs: bool) -> ComparisonPlan:
    if pairs is None:
        others = range(len(sides))
        pairs = list(combinations(others, 2)) if all_pairs else [(0, other) for other in others[1:]]
    planned = [_difference(sides[reference], sides[other]) for reference, other in pairs]
    notes = [
        f"{a.label}: both model and data differ, so that neither explains a difference alone"
        for a in planned
        if _are_of_two_models(*a.sides) and a.sides[0].identity.dataset != a.sides[1].identity.dataset
    ]
    return ComparisonPlan(planned, DIFFERENCE, notes)


def _difference(reference: ComparedPrompts, other: ComparedPrompts) -> PlannedContrast:
    return PlannedContrast(f"{other.name} − {reference.name}", (reference, other), OTHER_MINUS_REFERENCE)


def _size(sides: Sequence[ComparedPrompts], against: str) -> ComparisonPlan:
    planned, notes = [], []
    for dataset, group in _grouped(sides, lambda side: side.identity.dataset).items():
        ordered = sorted(group, key=lambda side: _size_of(side, against))
        sizes = [_size_of(side, against) for side in ordered]
        if len(set(sizes)) < 2:
            notes.append(f"{dataset}: no slope, since all its runs have {sizes[0]:g} {against}")
            continue
        coefficients = slope_coefficients([math.log2(size) for size in sizes])
        if against == "parameters":
            taken = ", ".join(f"{side.name} {size:.3g}" for side, size in zip(ordered, sizes))
            notes.append(f"{dataset}: numbers of parameters as the names tell them: {taken}")
        planned.append(
            PlannedContrast(f"slope over {len(group)} runs on {dataset}", tuple(ordered), tuple(coefficients.tolist()))
        )
    if not planned:
        raise OptionError(
            f"question='size' needs, on the same data, runs of at least two different numbers of {against}: "
            f"{'; '.join(notes)}. Give models of other sizes, or choose the other size with against= (--against)."
        )
    return ComparisonPlan(planned, f"change of ratio for each doubling of {against}", notes)


def _size_of(side: ComparedPrompts, against: str) -> float:
    if against == "blocks":
        return float(side.n_blocks)
    parameters = parameters_of(side.model)
    if parameters is None:
        raise OptionError(
            f"The name {side.model!r} does not tell one number of parameters (as '-1.5B' would), and runs do not hold "
            "it. Survey it from a folder whose name does, or compare against='blocks' (--against blocks)."
        )
    return parameters


def _reasoning(sides: Sequence[ComparedPrompts], pairs: Pairs | None) -> ComparisonPlan:
    if pairs is not None:
        return _differences(sides, pairs, all_pairs=False)
    planned = [
        _difference(base, trained)
        for base_name, trained_name in REASONING_PAIRS
        for base in sides
        for trained in sides
        if (base.model, trained.model) == (base_name, trained_name)
        and base.identity.dataset == trained.identity.dataset
    ]
    if not planned:
        raise OptionError(
            "No pair of a base model and its long chain-of-thought model on the same data is among the runs "
            f"({', '.join(side.name for side in sides)}). Known pairs: "
            f"{'; '.join(f'{base} → {trained}' for base, trained in REASONING_PAIRS)}. Say which belong together: "
            "BASE:COT on the command line, pairs=[(0, 1)] in Python."
        )
    used = {side.name for contrast in planned for side in contrast.sides}
    left = [side.name for side in sides if side.name not in used]
    return ComparisonPlan(planned, DIFFERENCE, [f"not part of any pair, left out: {', '.join(left)}"] if left else [])


def _difficulty(sides: Sequence[ComparedPrompts], by: str | None) -> ComparisonPlan:
    if by is not None or len(sides) == 1:
        ordered = [_by_level(side, by, alone=len(sides) == 1) for side in sides]
    else:
        ordered = [_by_data(group) for group in _by_model(sides) if len({side.identity.dataset for side in group}) > 1]
        if not ordered:
            raise OptionError(
                "question='difficulty' compares data sets under one model, and no model was given with two data "
                f"sets ({', '.join(side.name for side in sides)}). Give runs of one model on several data sets, or "
                "by= (--by) a label of the prompts, such as level."
            )
    notes = []
    if any(len(sides) > 2 for sides in ordered):
        notes.append("hardest − easiest; what lies between is left out (a trend test uses every level)")
    if by is None and len(sides) > 1 and any(difficulty_rank(side.identity.dataset) is None for side in sides):
        notes.append(f"difficulty is known for {', '.join(DIFFICULTY)}; others are ordered as given, easiest first")
    return ComparisonPlan([_difference(easiest, hardest) for easiest, *_, hardest in ordered], DIFFERENCE, notes)


def _by_data(group: Sequence[ComparedPrompts]) -> list[ComparedPrompts]:
    """Sides from the easiest data set to the hardest."""
    # Known data sets have their order from the paper; one unknown leaves all in the caller's order.
    ranks = [difficulty_rank(side.identity.dataset) for side in group]
    known_ranks = [rank for rank in ranks if rank is not None]
    if len(known_ranks) < len(group):
        return list(group)
    return [side for _, side in sorted(zip(known_ranks, group), key=itemgetter(0))]


def _by_level(side: ComparedPrompts, by: str | None, alone: bool) -> list[ComparedPrompts]:
    """The parts of a side from the easiest level to the hardest."""
    labels = side.run.prompts.labels
    name = difficulty_label(labels) if by is None else by
    if name is None or name not in labels:
        carried = f"its prompts carry: {', '.join(labels)}" if labels else "its prompts carry no labels"
        missing = f"label of difficulty ({', '.join(DIFFICULTY_LABELS)})" if by is None else f"label {by!r}"
        raise OptionError(
            f"{side.name} has no {missing}; {carried}.{did_you_mean(by or '', labels)} Give by= (--by) one of "
            "its labels, or runs of one model on data of different difficulty."
        )
    members = members_by_value(side.prompts, name)
    if len(members) < 2:
        raise OptionError(f"All prompts of {side.name} have the same {name} ({list(members)}); a comparison needs two.")
    if fault := order_fault(members):
        raise OptionError(
            f"No level of {name} is known to be harder than another: {fault}. Label prompts with numbers, or compare "
            f"groups without an order: group(by={name!r})."
        )
    prefix = "" if alone else f"{side.name}, "
    return [
        side.where(members_of_level, f"{prefix}{name} {level_name(level)}")
        for level, members_of_level in members.items()
    ]


def _are_of_two_models(first: ComparedPrompts, other: ComparedPrompts) -> bool:
    """Return whether two sides are of models that differ, or of two names that nothing shows to be one model."""
    agreement = compare_models(first.identity.of_model, other.identity.of_model)
    return bool(agreement.differences) or (first.model != other.model and not agreement.same)


def _by_model(sides: Sequence[ComparedPrompts]) -> list[list[ComparedPrompts]]:
    """Return sides in groups, in each those of one model."""
    groups: list[list[ComparedPrompts]] = []
    for side in sides:
        models = [compare_models(group[0].identity.of_model, side.identity.of_model) for group in groups]
        place = next((number for number, agreement in enumerate(models) if not agreement.differences), None)
        if place is None:
            groups.append([side])
        else:
            groups[place].append(side)
    return groups


def _grouped(
    sides: Sequence[ComparedPrompts], key: Callable[[ComparedPrompts], str]
) -> dict[str, list[ComparedPrompts]]:
    groups: dict[str, list[ComparedPrompts]] = {}
    for side in sides:
        groups.setdefault(key(side), []).append(side)
    return groups
