"""Domains of text, such as code and prose: prompts that choose and prompts that judge, each under its domain's name.

A choice that is made on one domain may be a bad one for another. Domains count alike in a joint choice, by the mean of
their costs or by the worst of them, however many prompts each of them has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from bathyscope.errors import OptionError, PromptError
from bathyscope.prompts.in_memory import Source
from bathyscope.prompts.prompts import Prompts
from bathyscope.statistics.strata import Strata
from bathyscope.surgery.options import Joint

DOMAIN: Final = "domain"
"""Label of prompts that says which domain they are of."""
DomainSources = Mapping[str, Source | Prompts]


@dataclass(frozen=True)
class Domains:
    """Domains by name, and how a joint choice weighs them.

    Args:
        names: in the order in which they were given.
        joint: the choice has the smallest mean cost over domains, or the smallest cost on the worst of them.
    """

    names: tuple[str, ...]
    joint: Joint = "mean"

    def strata(self, prompts: Prompts) -> Strata:
        """Return the domain of each prompt, by its number."""
        numbers = [self.names.index(str(label)) for label in prompts.label(DOMAIN)]
        return Strata(np.array(numbers, dtype=np.int64), self.joint == "worst")


def require_calibration(calibration: object) -> None:
    """Raises OptionError where no prompts are given for a choice or a repair to be made on."""
    if calibration is None:
        raise OptionError(
            "calibration=None: give the prompts that choose, or that a repair is fitted to, as for survey; the test "
            "prompts are others."
        )


def domains_of(calibration: object, test: object, joint: Joint | None) -> Domains | None:
    """Return the domains of what a choice is made on; None where no domains are named.

    Raises:
        OptionError: a single domain, domains of the calibration prompts alone, or other ones of the test prompts.
    """
    if not isinstance(calibration, Mapping) and not isinstance(test, Mapping):
        if joint is not None:
            raise OptionError(
                f"joint={joint!r} is for several domains; name them, as in calibration={{'code': …, 'prose': …}} "
                "(--calibration code=a.txt --calibration prose=b.txt)."
            )
        return None
    if not isinstance(calibration, Mapping) or not isinstance(test, Mapping) or set(calibration) != set(test):
        raise OptionError(
            f"Calibration prompts have {_names_text(calibration)} and test prompts {_names_text(test)}. Every domain "
            "chooses and judges: give both the same names (--calibration code=a.txt --test code=b.txt)."
        )
    names = tuple(calibration)
    for name in names:
        if not isinstance(name, str) or not name:
            raise OptionError(f"{name!r} names no domain; names are texts that are not empty.")
    if len(names) < 2:
        number = f"Only one domain, {names[0]!r}" if names else "No domain"
        raise OptionError(f"{number}; give two or more, or its prompts without a name.")
    return Domains(names, joint or "mean")


def each_source(prompts: Source | Prompts | DomainSources) -> list[Source | Prompts]:
    """Return the sources of all domains, or the one that is given without a domain."""
    return list(prompts.values()) if isinstance(prompts, Mapping) else [prompts]


def read_domains(read: Callable[[Source | Prompts], Prompts], sources: DomainSources, role: str) -> Prompts:
    """Return the prompts of all domains, each with the label ``domain``.

    Args:
        read: reads the prompts of one source.
        role: what messages call the prompts.

    Raises:
        PromptError: a domain of fewer than two prompts, a prompt that is in two domains, or one with such a label.
    """
    by_name = {name: read(source) for name, source in sources.items()}
    _require_apart(by_name, role)
    items = [
        replace(prompt, id=f"{name}/{prompt.id}", labels={**prompt.labels, DOMAIN: name})
        for name, prompts in by_name.items()
        for prompt in prompts
    ]
    dataset = " + ".join(f"{name}={prompts.dataset}" for name, prompts in by_name.items())
    tokenizers = [prompts.tokenizer for prompts in by_name.values() if prompts.tokenizer is not None]
    return Prompts(tuple(items), dataset, tokenizers[0] if tokenizers else None)


def require_judges(domains: Domains, test: Prompts) -> None:
    """Refuse a domain whose test prompts, each counted once, are too few for an interval.

    Raises:
        PromptError: fewer than two.
    """
    for name in domains.names:
        count = test.label(DOMAIN).count(name)
        if count < 2:
            raise PromptError(
                f"Domain {name!r} has {count} test prompts that are not copies; an interval needs at least two "
                "(40 or more recommended)."
            )


def _require_apart(by_name: Mapping[str, Prompts], role: str) -> None:
    domain_by_ids: dict[tuple[int, ...], str] = {}
    for name, prompts in by_name.items():
        if len(prompts) < 2:
            raise PromptError(
                f"Domain {name!r} has {len(prompts)} {role} prompt; at least two are needed to say how sure its choice "
                "is (40 or more recommended)."
            )
        for prompt in prompts:
            if DOMAIN in prompt.labels:
                raise PromptError(f"The {role} prompts have a label 'domain', which says their domain. Rename it.")
            other = domain_by_ids.setdefault(tuple(prompt.ids), name)
            if other != name:
                raise PromptError(
                    f"The {role} prompt {prompt.id!r} of domain {name!r} is in domain {other!r} too, by its tokens. "
                    "Give each domain texts of its own."
                )


def _names_text(sources: object) -> str:
    return f"the domains {', '.join(map(str, sources))}" if isinstance(sources, Mapping) else "no domains"
