"""A measure from outside the package, as the page that explains it has it: options, storage, identity, plug-in."""

from __future__ import annotations

import copy
import importlib.metadata
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from support import zoo

import bathyscope
from bathyscope.core import plug_ins
from bathyscope.labels import token_weights
from bathyscope.measures import registry

PAGE = Path(__file__).resolve().parents[2] / "docs" / "write_a_measure.md"
CODE = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)[0]


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "steps.py"
    path.write_text(CODE, encoding="utf-8")
    yield path
    sys.modules.pop("steps", None)


@pytest.fixture
def step(file: Path) -> type[bathyscope.extend.Measure[Any]]:
    measure = registry.expand([f"{file}:Step"])["step"].code
    assert measure is not None
    return measure


def prompts() -> list[list[int]]:
    return zoo.prompts(zoo.build("llama"), (9, 14, 6))


def surveyed(*measures: Any, **options: Any) -> bathyscope.Run:
    return bathyscope.survey(zoo.build("llama"), prompts(), measures, progress=False, **options)


def test_it_is_as_short_as_the_page_says() -> None:
    code = [line for line in CODE.splitlines() if line.strip() and not line.startswith(("import", "from", '"""'))]
    assert len(code) <= 30


def test_it_measures_beside_others(step: Any) -> None:
    run = surveyed("residual", step)
    assert list(run.measures) == ["residual", "step"]
    assert run["step"].step.dims == ("prompt", "block")
    assert run["step"].step.attrs["long_name"] == "length of a block's step"
    np.testing.assert_allclose(run["step"].step, run["residual"].ratio_block, rtol=1e-6)


def test_it_measures_models_of_half_precision(step: Any) -> None:
    model = copy.deepcopy(zoo.build("llama")).bfloat16()
    run = bathyscope.survey(model, prompts(), ["residual", step], progress=False)
    np.testing.assert_allclose(run["step"].step, run["residual"].ratio_block, rtol=1e-6)


def test_its_options_stand_under_its_name_or_in_the_instance(step: Any) -> None:
    by_name, by_instance = surveyed(step, step={"over": "last"}), surveyed(step({"over": "last"}))
    np.testing.assert_array_equal(by_name["step"].step, by_instance["step"].step)
    assert not np.allclose(by_name["step"].step, surveyed(step)["step"].step)
    with pytest.raises(
        bathyscope.OptionError, match=r"step: over='lst' is unknown\. Did you mean 'last'\? Allowed: me"
    ):
        surveyed(step, step={"over": "lst"})
    with pytest.raises(bathyscope.OptionError, match=r"step has no option 'offset'\. Allowed: over\."):
        step({"offset": 3})
    with pytest.raises(bathyscope.OptionError, match="step was given as an instance, which already has its options"):
        surveyed(step(), step={"over": "last"})


def test_it_is_stored_and_told_apart(step: Any, tmp_path: Path) -> None:
    out = tmp_path / "run"
    run = surveyed("lens", step, out=out)
    kept = bathyscope.open(out)
    np.testing.assert_array_equal(kept["step"].step, run["step"].step)
    assert kept.identity.measures["step"] == {"over": "mean", "class": "steps:Step"}
    assert list(kept.to_dataframe("step").columns).count("step") == 1
    surveyed("lens", step, out=out)

    class Other(step):  # type: ignore[misc]
        name = "step"

    with pytest.raises(bathyscope.StoreError, match="class"):
        surveyed("lens", Other, out=out)


def test_names_of_classes_and_of_the_package() -> None:
    class LongStep(bathyscope.extend.Measure[Any]):
        """Long."""

    class Lens(bathyscope.extend.Measure[Any]):
        """Not the package's."""

    class Odd(bathyscope.extend.Measure[Any]):
        name = "odd-name"

    class Numbered(bathyscope.extend.Measure[Any]):
        name = 5  # type: ignore[assignment]

    class Letters(bathyscope.extend.Measure[Any]):
        requires = "lens"  # type: ignore[assignment]

    class Lost(bathyscope.extend.Measure[Any]):
        requires = ("lenz",)

    class Blind(bathyscope.extend.Measure[Any]):
        """Has nothing that observes a batch."""

    assert list(registry.expand([LongStep])) == ["long_step"]
    for wrong, said in (
        (Lens, "Lens cannot be called 'lens', which is a measure of the package"),
        (Odd, "Odd cannot be called 'odd-name'; a measure's name is made of letters, digits and underscores"),
        (Numbered, "Numbered cannot be called 5; a measure's name is made of letters, digits and underscores"),
        (Letters, r"Letters.requires is 'lens' and no list of measures; give their names, such as \('lens',\)"),
        (Lost, r"The measure lost requires 'lenz': Unknown measure 'lenz'\. Did you mean 'lens'\?"),
        (Blind, r"The measure blind failed in probe\(\) with TypeError: blind has no method probe\(\), which gives"),
        (3, r"3 is no measure; allowed: names \(all, residual"),
    ):
        with pytest.raises(bathyscope.OptionError, match=said):
            surveyed(wrong)
    with pytest.raises(bathyscope.OptionError, match="Two measures are called 'long_step'"):
        registry.expand([LongStep(), LongStep()])


def test_a_result_that_is_not_by_prompt_is_refused(step: Any) -> None:
    class Summed(step):  # type: ignore[misc]
        def probe(self, *given: Any) -> Any:
            probe = super().probe(*given)
            whole = probe.result
            probe.result = lambda: whole().sum("prompt")
            return probe

    with pytest.raises(bathyscope.OptionError, match=r"summed gives step with the dimensions .* a dimension 'prompt'"):
        surveyed(Summed)


def of_shape(step: Any, change: Any) -> Any:
    """Return a measure that gives what ``change`` makes of the dataset of ``step``."""

    class Shaped(step):  # type: ignore[misc]
        def probe(self, *given: Any) -> Any:
            probe = super().probe(*given)
            whole = probe.result
            probe.result = lambda: change(whole())
            return probe

    return Shaped


def with_values(dims: tuple[str, ...], values: np.ndarray, **coords: Any) -> xr.Dataset:
    return xr.Dataset({"step": xr.Variable(dims, values)}, coords)


def by_batch(first: xr.Dataset, other: xr.Dataset) -> Any:
    """Return a change that gives one dataset for the first batch and another for all that follow."""
    left = [first]
    return lambda _: left.pop() if left else other


@pytest.mark.parametrize(
    ("change", "shape", "expected"),
    [
        (lambda d: d.isel(block=slice(3)).drop_vars("block"), "'block': 3", "'block' of 5, the model's blocks"),
        (
            lambda d: d.isel(block=slice(3)).drop_vars("block").rename(block="boundary"),
            "'boundary': 3",
            "'boundary' of 6, the model's boundaries",
        ),
        (lambda d: d.assign_coords(block=list("abcde")), "'block': 5", "'block' numbered by whole numbers from 0 to 4"),
        (lambda d: d.assign_coords(block=[0, 1, 2, 3, 7]), "'block': 5", "'block' numbered by whole numbers from 0"),
        (lambda d: d.assign_coords(block=[0, 1, 2, 3, 3]), "'block': 5", "'block' numbered by whole numbers from 0"),
        (lambda d: d.assign_coords(prompt=[99] * d.sizes["prompt"]), "'prompt': 1", "'prompt' of 1, .* of the prompts"),
        (
            lambda _: with_values(("prompt", "block", "block"), np.ones((1, 5, 5))),
            r"\('prompt', 'block', 'block'\) of \[1, 5, 5\]",
            "dimensions of different names",
        ),
        (by_batch(with_values(("prompt",), np.ones(1)), with_values(("prompt", "block"), np.ones((1, 5)))), "", "same"),
        (by_batch(with_values(("prompt",), np.ones(1)), with_values(("prompt",), np.ones(1, int))), "int64", "float64"),
    ],
)
def test_a_result_of_another_shape_is_refused_with_what_was_expected(
    step: Any, change: Any, shape: str, expected: str
) -> None:
    words = rf"(?s)The measure shaped gives step .*{shape}.*expected: .*{expected}"
    with pytest.raises(bathyscope.OptionError, match=words):
        surveyed(of_shape(step, change))


class Whole(bathyscope.extend.Measure):
    """What is derived from the lens."""

    derived = True
    requires = ("lens",)
    value: Any = None

    def derive(self, *given: Any) -> Any:
        return self.value


class Summed(bathyscope.extend.Measure):
    """A summary of what each prompt gives."""

    value: Any = None

    def probe(self, facts: Any, batch: Any, indices: Any) -> Any:
        probe = bathyscope.extend.MeasureProbe()
        probe.result = lambda: with_values(("prompt",), np.ones(batch.size))  # type: ignore[method-assign]
        return probe

    def summarise(self, *given: Any) -> Any:
        return self.value


@pytest.mark.parametrize(("measure", "place"), [(Whole, "derive"), (Summed, "summarise")])
@pytest.mark.parametrize(
    ("value", "said"),
    [
        (3, r"gives a int in {place}\(\)\. Return an xarray\.Dataset\."),
        (xr.Dataset(), r"gives a dataset without variables in {place}\(\)"),
        (
            xr.Dataset({"total": ("block", np.ones(2))}),
            r"gives total with the dimensions {{'block': 2}}; expected: 'block' of 5",
        ),
    ],
)
def test_results_of_all_prompts_have_shapes_too(measure: Any, place: str, value: Any, said: str) -> None:
    with pytest.raises(bathyscope.OptionError, match=said.format(place=place)):
        surveyed(type("Mine", (measure,), {"value": value}))


def test_results_of_some_blocks_say_which(step: Any) -> None:
    some = surveyed(of_shape(step, lambda dataset: dataset.isel(block=[0, 2, 4])))
    assert some["shaped"].block.values.tolist() == [0, 2, 4]


def test_dimensions_that_are_not_those_of_the_values_name_measure_and_variable(step: Any) -> None:
    wrong = of_shape(
        step,
        lambda _: xr.Dataset(
            {"step": bathyscope.extend.variable(["prompt"], np.ones((1, 5)), "length", "1", source="own")}
        ),
    )
    words = r"The measure shaped failed in result\(\): 'length' has dims=\['prompt'\], .* array of shape \[1, 5\]"
    with pytest.raises(bathyscope.OptionError, match=words):
        surveyed(wrong)


def test_a_mean_over_the_last_token_alone_weighs_one(step: Any) -> None:
    """As the page says of means over fewer tokens than the prompt has."""
    for over, weights in (("mean", [9, 14, 6]), ("last", [1, 1, 1])):
        run = surveyed(step({"over": over}))
        assert token_weights(run["step"], "step").tolist() == weights


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nowhere.py:Step", r"No measure could be taken from 'nowhere\.py:Step' \(FileNotFoundError"),
        ("no_such_module:Step", r"\(ModuleNotFoundError.*give module:Class or file\.py:Class"),
        ("json:loads", "is no measure"),
    ],
)
def test_places_without_a_measure(text: str, said: str) -> None:
    with pytest.raises(bathyscope.OptionError, match=said):
        registry.expand([text])


def test_a_file_that_ends_the_program_is_no_measure(tmp_path: Path) -> None:
    (tmp_path / "ends_the_program.py").write_text("import sys\n\nsys.exit(3)\n")
    with pytest.raises(bathyscope.OptionError, match=r"No measure could be taken from '.*:M' \(SystemExit: 3\); give"):
        registry.expand([f"{tmp_path / 'ends_the_program.py'}:M"])


def test_a_dataset_without_variables_is_refused(step: Any) -> None:
    class Empty(step):  # type: ignore[misc]
        def probe(self, *given: Any) -> Any:
            probe = super().probe(*given)
            probe.result = xr.Dataset
            return probe

    with pytest.raises(bathyscope.OptionError, match=r"The measure empty gives a dataset without variables in result"):
        surveyed(Empty)


def entry_point(name: str, value: str) -> importlib.metadata.EntryPoint:
    return importlib.metadata.EntryPoint(name, value, registry.GROUP)


def test_a_plug_in_is_known_by_name(step: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plug_ins, "entry_points", lambda group: [entry_point("step", "steps:Step")])
    assert list(registry.expand(["step"])) == ["step"]
    assert "step" in registry.expand(["all"])
    assert "step" in surveyed("residual", "step").measures
    with pytest.raises(bathyscope.OptionError, match="stages, step"):
        registry.expand(["stp"])


@pytest.mark.parametrize("value", ["no_such_module:Step", "steps:StepOptions", "json:loads"])
def test_a_broken_plug_in_says_its_name_and_stops_nothing_else(
    step: Any, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setattr(plug_ins, "entry_points", lambda group: [entry_point("broken", value)])
    assert list(registry.expand(["lens"])) == ["lens"]
    with pytest.warns(UserWarning, match=rf"The measure of the plug-in broken \({value}\) cannot be used, "):
        assert list(registry.expand(["all"])) == list(registry.MEASURES)
    with (
        pytest.warns(UserWarning, match="broken"),
        pytest.raises(bathyscope.OptionError, match="Unknown measure 'broken'"),
    ):
        registry.expand(["broken"])


def test_plug_ins_are_not_loaded_unless_asked_for() -> None:
    code = (
        "import sys; from bathyscope.core import plug_ins; from bathyscope.measures import registry\n"
        "from importlib.metadata import EntryPoint\n"
        "plug_ins.entry_points = lambda group: [EntryPoint('dear', 'antigravity:Dear', group)]\n"
        "registry.chosen(['lens'], {})\n"
        "print('antigravity' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"
