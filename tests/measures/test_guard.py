"""Measures from outside the package: what they do to others, and what they get wrong, is told with their name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest
import torch
import xarray as xr
from support import zoo

import bathyscope
from bathyscope.errors import OptionError

IDS = [[3, 5, 7, 9, 11, 13, 15, 4, 6], [8, 6, 4, 2, 1, 3, 5, 7, 9]]


def surveyed(*measures: Any, **options: Any) -> bathyscope.Run:
    return bathyscope.survey(zoo.build("llama"), IDS, measures, progress=False, **options)


def values(batch: Any, value: float = 0.0) -> xr.Dataset:
    return xr.Dataset({"value": ("prompt", np.full(batch.size, value))})


def measuring(**methods: Callable[..., Any]) -> type[bathyscope.extend.Measure[Any]]:
    """A measure ``mine`` whose probe has these methods."""

    class Probe(bathyscope.extend.MeasureProbe):
        def __init__(self, batch: Any, block: int) -> None:
            super().__init__([bathyscope_skip(block)])
            self.batch = batch

        def result(self) -> Any:
            return values(self.batch)

    for name, method in methods.items():
        setattr(Probe, name, method)

    class Mine(bathyscope.extend.Measure[Any]):
        """Mine."""

        def probe(self, facts: Any, batch: Any, indices: Any) -> Any:
            return Probe(batch, 1)

    return Mine


def bathyscope_skip(block: int) -> Any:
    from bathyscope.wavefront.rows import SkipRow

    return SkipRow(block)


def zeroed(name: str, block: int = 3) -> Callable[[Any, Any], None]:
    def write(self: Any, view: Any) -> None:
        if getattr(view, "block", block) == block:
            getattr(view, name).zero_()

    return write


def shrunk(self: Any, view: Any) -> None:
    view.change[0].mul_(0.5)


def into_rows_at_the_end(self: Any, final: Any) -> None:
    next(iter(final.full.values())).add_(1)


@pytest.mark.parametrize(
    ("methods", "what", "where"),
    [
        ({"baseline": zeroed("after_BTD")}, "after_BTD", " at block 3"),
        ({"baseline": zeroed("before_BTD", 0)}, "before_BTD", " at block 0"),
        ({"rows": zeroed("control_after")}, "a tensor", " at block 3"),
        ({"rows": shrunk}, "change", " at block 2"),
        ({"finish": zeroed("baseline_BTD")}, "baseline_BTD", ""),
        ({"finish": into_rows_at_the_end}, "a tensor", ""),
    ],
)
def test_a_measure_that_writes_into_what_others_see_is_refused(
    methods: dict[str, Callable[..., Any]], what: str, where: str
) -> None:
    method = next(iter(methods))
    with pytest.raises(OptionError) as caught:
        surveyed("residual", "skip", "drop", measuring(**methods))
    assert str(caught.value) == (
        f"The measure mine writes into {what} of its view in {method}(){where}, which other measures read too. "
        "Change a copy: tensor.clone()."
    )


def test_a_measure_that_changes_a_copy_changes_no_other() -> None:
    def copied(self: Any, view: Any) -> None:
        view.after_BTD.clone().zero_()
        view.after_BTD.float().double().mul_(0)

    beside, alone = surveyed("residual", "lens", measuring(baseline=copied)), surveyed("residual", "lens")
    for name in ("residual", "lens"):
        xr.testing.assert_identical(beside[name].drop_attrs(), alone[name].drop_attrs())


def raising(error: Exception, block: int = 2) -> Callable[..., None]:
    def raise_(self: Any, view: Any = None, *rest: Any) -> None:
        if getattr(view, "block", block) == block:
            raise error

    return raise_


@pytest.mark.parametrize(
    ("methods", "where"),
    [
        ({"baseline": raising(KeyError("x"))}, "baseline() at block 2 with KeyError: 'x'"),
        ({"rows": raising(RuntimeError("shapes\n differ"), 4)}, "rows() at block 4 with RuntimeError: shapes differ"),
        ({"finish": raising(ValueError("no"))}, "finish() with ValueError: no"),
        ({"result": raising(ZeroDivisionError("by zero"))}, "result() with ZeroDivisionError: by zero"),
    ],
)
def test_what_a_measure_raises_is_told_with_its_name_and_block(
    methods: dict[str, Callable[..., Any]], where: str
) -> None:
    with pytest.raises(OptionError) as caught:
        surveyed("residual", measuring(**methods))
    help_ = "Correct its code; the traceback shows the line (in a shell with --debug)."
    assert str(caught.value) == f"The measure mine failed in {where}. {help_}"
    assert caught.value.__cause__ is not None


def test_errors_meant_for_the_user_and_interrupts_stay_what_they_are() -> None:
    for error in (bathyscope.PromptError("Give longer prompts."), KeyboardInterrupt()):
        with pytest.raises(type(error)) as caught:
            surveyed(measuring(baseline=raising(error)))  # type: ignore[arg-type]
        assert str(caught.value) == str(error)


@pytest.mark.parametrize(
    ("given", "kind"),
    [(None, "NoneType"), ({"value": [1, 2]}, "dict"), (np.zeros(2), "ndarray"), (torch.zeros(2), "Tensor")],
)
def test_a_result_that_is_no_dataset_is_refused(given: object, kind: str) -> None:
    with pytest.raises(OptionError) as caught:
        surveyed(measuring(result=lambda self: given))
    assert str(caught.value) == (
        f"The measure mine gives a {kind} in result(). Return an xarray.Dataset whose variables begin with the "
        "dimension 'prompt'."
    )


def test_a_probe_that_was_not_prepared_is_refused() -> None:
    class Bare(bathyscope.extend.MeasureProbe):
        def __init__(self) -> None:
            self.batch = None

        def result(self) -> xr.Dataset:
            return values(self.batch)

    class Mine(bathyscope.extend.Measure[Any]):
        def probe(self, facts: Any, batch: Any, indices: Any) -> Any:
            return Bare() if self.prepared else batch

        prepared = True

    class Wrong(Mine):
        name = "mine"
        prepared = False

    with pytest.raises(OptionError) as caught:
        surveyed(Mine)
    assert str(caught.value) == (
        "The probe of the measure mine has no requests. Begin Bare.__init__ with super().__init__()."
    )
    with pytest.raises(OptionError) as caught:
        surveyed(Wrong)
    assert str(caught.value) == "The measure mine gives a Batch in probe(). Return a bathyscope.extend.MeasureProbe."


def test_a_derived_measure_without_derive_is_refused_by_name() -> None:
    class Mine(bathyscope.extend.Measure[Any]):
        """Nothing."""

        name = "mine"
        derived = True
        requires = ("lens",)

    with pytest.raises(
        OptionError, match=r"^The measure mine failed in derive\(\) with TypeError: mine has no method derive"
    ):
        surveyed(Mine)


def test_a_measure_without_a_probe_or_options_is_refused_by_name() -> None:
    class Mine(bathyscope.extend.Measure[Any]):
        """Nothing."""

    class Unmade(Mine):
        name = "mine"

        def __init__(self, options: object = None) -> None:
            self.k = 3

    with pytest.raises(
        OptionError, match=r"^The measure mine failed in probe\(\) with TypeError: mine has no method probe"
    ):
        surveyed(Mine)
    with pytest.raises(OptionError) as caught:
        surveyed(Unmade)
    assert str(caught.value) == "The measure mine has no options. Begin Unmade.__init__ with super().__init__(options)."


@dataclass(frozen=True)
class Outside:
    over: Literal["mean", "last"] = "median"  # type: ignore[assignment]


@dataclass(frozen=True)
class Needed:
    over: str


@pytest.mark.parametrize(
    ("options_type", "message"),
    [
        (dict, "Mine.options_type is dict and no dataclass. Give a class with @dataclass(frozen=True)."),
        (3, "Mine.options_type is 3 and no dataclass. Give a class with @dataclass(frozen=True)."),
        (Outside, "mine: over='median' is unknown. Did you mean 'mean'? Allowed: mean, last."),
        (Needed, "Needed() fails (missing 1 required positional argument: 'over'). Give every option a default."),
    ],
)
def test_options_that_no_one_could_give_are_refused_at_once(options_type: Any, message: str) -> None:
    class Mine(bathyscope.extend.Measure[Any]):
        pass

    Mine.options_type = options_type
    with pytest.raises(OptionError) as caught:
        surveyed(Mine)
    assert str(caught.value) == message


def test_values_that_are_all_nan_bring_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"mine\.value") as caught:
        run = surveyed(measuring(result=lambda self: values(self.batch, np.nan)))
    told = [str(one.message) for one in caught if "mine" in str(one.message)]
    assert told == ["mine.value is NaN for every prompt. The run keeps it; check what the measure computes."]
    assert run["mine"].value.isnull().all()


def test_a_dict_or_a_number_of_measures_is_refused() -> None:
    with pytest.raises(OptionError) as caught:
        bathyscope.survey("model", IDS, 5)  # type: ignore[arg-type]
    assert str(caught.value) == "measures=5 is no list of measures. Give names, such as ['residual', 'lens'] or 'all'."
    with pytest.raises(OptionError) as caught:
        bathyscope.survey("model", IDS, {"lens": {"k": 5}})  # type: ignore[arg-type]
    assert str(caught.value) == (
        "measures={'lens': {'k': 5}} is a dict. Give the names as a list, and options under the measure's own name: "
        "lens={...}."
    )
