"""Prompts in parts by the value of a label: groups to compare, levels of difficulty, clusters to resample."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from bathyscope.core.commands import name_command
from bathyscope.errors import OptionError, did_you_mean
from bathyscope.prompts.prompt import TokenizedPrompt

if TYPE_CHECKING:
    import xarray as xr

FEWEST_CLUSTERS: Final = 3
"""Clusters below which their spread is not told at all."""
COPY_OF: Final = "prompt_copy_of"
"""A coordinate of results in memory, of runs with copies among their prompts alone."""
SCALES: Final = (
    ("trivial", "very easy", "easy", "easy-medium", "medium", "intermediate", "medium-hard", "hard", "very hard"),
    ("very low", "low", "mid", "middle", "medium", "high", "very high"),
    ("elementary", "middle school", "high school", "college", "university", "graduate"),
    ("beginner", "novice", "intermediate", "advanced", "expert"),
)
"""Words that have an order of difficulty, each scale from the easiest."""
_NUMBER: Final = re.compile(
    r"(?P<sign>(?<![\w.])[-−])?(?P<whole>\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\d)|\d+(?:\.\d+)?)(?:/(?P<below>[1-9]\d*))?"
)
DATASET: Final = "dataset"
"""What every prompt has in addition to its labels, and may be grouped by as well."""


def parts(values: Iterable[Any]) -> tuple[list[Any], NDArray[np.intp]]:
    """The different values in order of appearance, and for each prompt which it has; −1 where it has none.

    None, NaN and empty texts, by which results fill a label that a prompt lacks, are no values.
    """
    listed = list(values)
    has_value = [value is not None and value == value and value != "" for value in listed]
    number = {value: place for place, value in enumerate(dict.fromkeys(v for v, has in zip(listed, has_value) if has))}
    return list(number), np.array([number[v] if has else -1 for v, has in zip(listed, has_value)], dtype=np.intp)


def label_values(prompts: Sequence[TokenizedPrompt], label: str) -> list[Any]:
    """A label's value for each prompt, or its data set; None where it has none. OptionError where no prompt has it."""
    if label == DATASET:
        return [prompt.dataset for prompt in prompts]
    labels = dict.fromkeys(name for prompt in prompts for name in prompt.labels)
    if label not in labels:
        label_names = (DATASET, *labels)
        raise OptionError(
            f"The prompts of this run have no label {label!r}.{did_you_mean(label, label_names)} Their labels: "
            f"{', '.join(label_names)}. Labels are given with the prompts: Prompt(labels={{...}}), or a line of a "
            "prompt file; which of two models solve a prompt is found by bathyscope.solved_by "
            f"({name_command('solved-by')})."
        )
    values = [prompt.labels.get(label) for prompt in prompts]
    # Labels from a CSV file are texts, those from Python numbers: in one set of prompts they must meet.
    if not any(isinstance(value, str) for value in values):
        return values
    # where some are texts all are, as results have them: 1 and "1" are one value
    return [value if value is None else _written(value) for value in values]


def members_by_value(prompts: Sequence[TokenizedPrompt], label: str) -> dict[Any, NDArray[np.bool_]]:
    """Which prompts have each value of a label, in the order of :func:`rank`; data sets stay as they were given.

    Errors are those of :func:`label_values`.
    """
    values = label_values(prompts, label)
    names, member = parts(values) if label == DATASET else levels_in_order(values)
    return {name: member == number for number, name in enumerate(names)}


def levels_in_order(values: Iterable[Any]) -> tuple[list[Any], NDArray[np.intp]]:
    """The different values in the order of :func:`rank`, and for each prompt which it has; −1 where it has none."""
    appearing, member = parts(values)
    ordered = sorted(appearing, key=rank)
    # The last place, which −1 names, stands for prompts without a value.
    number = np.array([*(ordered.index(value) for value in appearing), -1], dtype=np.intp)
    return ordered, number[member]


def rank(level: Any) -> tuple[int, float, str]:
    """Order of groups: numbers, then classes of solved_by, then texts by the number in them, then others.

    Numbers in texts have a sign, thousands (``1,000``), decimals or are fractions (``3/4``); "level 10" is behind
    "level 9". Words of one scale (easy, medium, hard) are in its order, and other texts last in that of the alphabet.
    """
    if not isinstance(level, str):
        return 0, float(level), ""
    if level in CLASSES:
        return 1, float(CLASSES.index(level)), ""
    number = number_in(level)
    if number is None and (place := _places().get(level.strip().lower())) is not None:
        return 3, place, ""
    return 2, np.inf if number is None else number, level


def number_in(text: str) -> float | None:
    """Return the first number of a text; None without one."""
    return next(iter(numbers_in(text)), None)


def numbers_in(text: str) -> list[float]:
    """Return the numbers of a text, in order."""
    return [_value(match) for match in _NUMBER.finditer(text)]


def _value(match: re.Match[str]) -> float:
    value = float(match["whole"].replace(",", ""))
    if match["below"]:
        value /= float(match["below"])
    # a dash behind a letter or a digit joins words (K-1, 2-3)
    return -value if match["sign"] else value


@cache
def _places() -> dict[str, float]:
    """Return a place for every word of the scales, such that each scale rises; a word of several has one place."""
    easier: dict[str, list[str]] = {}
    for scale in SCALES:
        for place, word in enumerate(scale):
            easier.setdefault(word, []).extend(scale[:place])
    return {word: float(place) for place, word in enumerate(TopologicalSorter(easier).static_order())}


def level_name(level: Any) -> str:
    """A label's value as it is called: 3.0, which stands for 3 where another prompt has no label, is 3."""
    if isinstance(level, str):
        return level
    short = f"{level:g}"
    return short if float(short) == level else str(level)  # 1234567 is not 1.23457e+06


def clusters(prompts: Sequence[TokenizedPrompt], label: str) -> list[str | None]:
    """The cluster of each prompt: its label as text, of which prompts with the same one belong together.

    Numbers that are equal have one text, so that 1, 1.0 and "1" are one cluster, of one run or of several.

    Raises:
        OptionError: no such label; a prompt without it; fewer than three clusters; a cluster for every prompt.
    """
    texts = cluster_names(prompts, label)
    names, member = parts(texts)
    of = f"cluster={label!r} (--cluster)"
    if (member < 0).any():
        first = prompts[int(np.argmax(member < 0))].id
        raise OptionError(
            f"{of}: {int((member < 0).sum())} of {len(prompts)} prompts have no label {label!r}, the first of them "
            f"{first!r}; every prompt belongs to a cluster. Label them, or leave them out."
        )
    if len(names) < FEWEST_CLUSTERS:
        raise OptionError(
            f"{of}: the {len(prompts)} prompts lie in {len(names)} {'cluster' if len(names) == 1 else 'clusters'} "
            f"({', '.join(names)}), and {FEWEST_CLUSTERS} at least are needed to tell how far clusters lie "
            "apart. Give prompts of more of them, or another label."
        )
    if len(names) == len(prompts):
        raise OptionError(
            f"{of}: every prompt has a {label} of its own, so that there is nothing to draw together. Leave it out, or "
            "give a label that several prompts share."
        )
    return texts


def cluster_names(prompts: Sequence[TokenizedPrompt], label: str) -> list[str | None]:
    """The label of each prompt as text, however many differ; None for a prompt without it.

    Raises:
        OptionError: no such label.
    """
    values = label_values(prompts, label)
    return [_written(value) if part >= 0 else None for value, part in zip(values, parts(values)[1])]


def _written(value: Any) -> str:
    """A label as a reader sees it, whole numbers without a point."""
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if whole else str(value)


def copies_in(prompts: Iterable[TokenizedPrompt]) -> NDArray[np.intp] | None:
    """For each prompt the number of the first that has its tokens, [prompts]; None where no two are alike."""
    first: dict[Sequence[int], int] = {}
    numbers = [first.setdefault(prompt.ids, number) for number, prompt in enumerate(prompts)]
    return np.array(numbers, dtype=np.intp) if len(first) < len(numbers) else None


def with_copies(results: xr.Dataset, copy_of: Mapping[str, int]) -> xr.Dataset:
    """Results by prompt that say which prompts are copies, as :func:`clusters_in` reads it; others as they are.

    Args:
        copy_of: id of a prompt → number of the first that has its tokens; empty = no two are alike.
    """
    if not copy_of or "prompt_id" not in results.coords or results["prompt_id"].dims != ("prompt",):
        return results
    # of a run that is not finished one result may have prompts that another lacks
    numbers = [copy_of.get(name, -1 - place) for place, name in enumerate(results["prompt_id"].values.tolist())]
    return results.assign_coords({COPY_OF: ("prompt", numbers)})


def drawn_together(first: NDArray[np.intp] | None, second: NDArray[np.intp] | None) -> NDArray[np.intp] | None:
    """Clusters of prompts, [prompts], in which those lie together that either division has together; None = neither."""
    if first is None or second is None:
        return second if first is None else first
    from scipy.sparse import coo_array  # scipy takes longer to import than all of reading prompts
    from scipy.sparse.csgraph import connected_components

    size = len(first)
    left, right = (np.unique(numbers, return_inverse=True)[1] for numbers in (first, second))
    links = coo_array((np.ones(size), (left, size + right)), shape=(2 * size, 2 * size))
    _, component = connected_components(links, directed=False)
    together: NDArray[np.intp] = component[left].astype(np.intp)
    return together


def clusters_in(results: xr.Dataset | xr.DataArray, label: str | None) -> NDArray[np.intp] | None:
    """The number of each prompt's cluster, [prompts], which copies share; None where each prompt stands for itself.

    Args:
        label: one that :func:`clusters` takes; where a result has its name, ``prompt_`` is before it.

    Raises:
        OptionError: the results do not hold the label, as those of other packages may.
    """
    copies = results[COPY_OF].values if COPY_OF in results.coords else None
    if label is None:
        return copies
    by_prompt = [name for name in (label, f"prompt_{label}") if name in results.coords]
    coordinate = next((name for name in by_prompt if results[name].dims == ("prompt",)), None)
    if coordinate is None:
        raise OptionError(
            f"cluster={label!r} (--cluster): results of {', '.join(map(str, results.sizes))} do not hold that label of "
            "their prompts, so that it is not known which belong together; leave out the cluster, or these results."
        )
    return drawn_together(parts(results[coordinate].values.tolist())[1], copies)


def resampled(label: str | None) -> str:
    """What intervals resample, in words."""
    return "prompts" if label is None else f"clusters of prompts by {label}"


SOLVED_BY: Final = "solved_by"
"""Name of the label."""

NEITHER, ONLY_SHALLOW, ONLY_DEEP, BOTH = CLASSES = ("neither", "only shallow", "only deep", "both")
"""The classes, in the order in which results list them.

A prompt that only the shallow model solves is a class of its own: counting it as "both" or leaving it out would hide
how often a deeper model fails where a shallower one does not, which is the scale on which "only deep" must be read.
"""


def class_of(shallow: bool, deep: bool) -> str:
    """The class of a prompt, from whether the shallow and the deep model solve it."""
    return CLASSES[shallow + 2 * deep]
