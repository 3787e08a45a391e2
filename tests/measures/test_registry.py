from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import bathyscope
from bathyscope.errors import OptionError
from bathyscope.measures import of, registry
from bathyscope.measures.registry import DEFAULT, MEASURES, chosen, expand, make

ORDER = (
    *("residual", "lens", "translated_lens", "jacobian_lens", "skip", "direct", "depth_score", "erasure", "patching"),
    *("integrated_gradients", "gradient", "drop", "swap", "repeat", "pairs", "swap_cosine", "cka"),
    *("attention_locality", "neurons", "tokens", "effective_depth", "stages"),
)
"""In which results are written and read; a measure that is added may come between."""


def test_measures_keep_their_order() -> None:
    assert tuple(name for name in MEASURES if name in ORDER) == ORDER


def test_every_declaration_is_registered_under_its_name() -> None:
    files = {path.stem for path in Path(of.__path__[0]).glob("*.py")} - {"__init__"}
    assert set(MEASURES) == files
    assert all(name == one.name for name, one in MEASURES.items())


def test_a_synonym_means_one_measure() -> None:
    synonyms = [synonym for declaration in MEASURES.values() for synonym in declaration.synonyms]
    assert len(set(synonyms)) == len(synonyms)
    assert not set(synonyms) & set(MEASURES)


@pytest.mark.parametrize("name", MEASURES)
def test_examples_are_options_and_panels_show_variables(name: str) -> None:
    declaration = MEASURES[name]
    assert chosen([name], {name: declaration.example} if declaration.example else {})
    assert {variable for panel in declaration.panels.values() for variable in panel} <= set(declaration.table or ())


def test_what_is_derived_comes_after_what_it_needs() -> None:
    order = list(MEASURES)
    for name, one in MEASURES.items():
        assert all(order.index(needed) < order.index(name) for needed in one.requires)
        # what only observes can take from others that do
        assert one.derived or not any(MEASURES[needed].derived for needed in one.requires)


def test_a_measure_is_what_its_declaration_says() -> None:
    for name, one in MEASURES.items():
        made = make(one)
        assert type(made).__module__ in (f"bathyscope.measures.of.{name}", f"bathyscope.measures.{name}")
        assert made.options == one.options_type()
        stated = (made.name, made.table, made.requires, made.needs_answers, made.derived)
        assert stated == (name, one.table, one.requires, one.needs_answers, one.derived)
        assert one.summary.endswith(".")
        assert type(made).__doc__ == one.summary or name in ("translated_lens", "pairs", "tokens")
        assert "\n" not in one.summary


def test_a_class_of_another_name_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("bathyscope.measures.of.gradient.Gradient")
    with pytest.raises(ImportError, match=r"^The measure gradient has no class Gradient, neither in .*call its class"):
        make(MEASURES["gradient"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"of/wobble\.py has no DECLARATION; write DECLARATION = Declaration\('wobble'"),
        ("DECLARATION = 'wobble'", r"of/wobble\.py has no DECLARATION"),
        (
            "from bathyscope.measures.declaration import Declaration\nDECLARATION = Declaration('wobbly', '')",
            r"of/wobble\.py declares 'wobbly'; give the file and the measure one name",
        ),
    ],
)
def test_a_file_that_declares_no_measure_of_its_name_is_named(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wobble.py").write_text(text)
    monkeypatch.setattr(of, "__path__", [str(tmp_path)])
    monkeypatch.setitem(sys.modules, "bathyscope.measures.of.wobble", None)
    monkeypatch.delitem(sys.modules, "bathyscope.measures.of.wobble")
    with pytest.raises(ImportError, match=message):
        registry._read_folder()


def test_declarations_load_no_heavy_library() -> None:
    code = (
        "import sys; from bathyscope.measures.registry import chosen\n"
        "chosen(['all'], {'lens': {'k': 3}})\n"
        "print([m for m in ('torch', 'transformers', 'xarray', 'numpy', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_wrong_options_are_refused_before_any_measure_is_made() -> None:
    with pytest.raises(OptionError, match=r"lens: positions='iner' is unknown\. Did you mean 'inner'\?"):
        chosen(["lens"], {"lens": {"positions": "iner"}})
    with pytest.raises(OptionError, match=r"lens: k=0 is out of range; allowed: 1 or more"):
        chosen(["lens"], {}, {"lens": {"k": 0}})


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (["swap", "drop"], ["drop", "swap"]),
        (["effective_depth"], ["residual", "lens", "skip", "effective_depth"]),
        (["all"], list(MEASURES)),
        (["lens", "lens"], ["lens"]),
        (DEFAULT, ["residual", "lens", "skip", "drop", "tokens", "effective_depth"]),
    ],
)
def test_a_measure_brings_what_it_needs(asked: list[str], expected: list[str]) -> None:
    assert list(expand(asked)) == expected


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("lens drop", "Unknown measure 'lens drop'. Separate names by commas: lens,drop. Allowed"),
        (["lense"], f"Unknown measure 'lense'. Did you mean 'lens'? Allowed: {', '.join(['all', *MEASURES])}"),
        (["lens", "xyzzy"], "Unknown measure 'xyzzy'. Allowed: all,"),
        ("logit_lens", "Unknown measure 'logit_lens'. Did you mean 'lens'? Allowed"),
        (["Tuned-Lens"], "Unknown measure 'Tuned-Lens'. Did you mean 'translated_lens'? Allowed"),
        ("lens,ablation", "Unknown measure 'ablation'. Did you mean 'drop'? Allowed"),
        ([], "No measure asked for; allowed: all, residual,"),
    ],
)
def test_errors(asked: list[str], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        expand(asked)
    assert message in str(caught.value)


def test_an_array_is_no_measure() -> None:
    with pytest.raises(OptionError, match="is no measure; allowed: names"):
        expand([np.zeros(3)])


def test_forms_of_prompts_are_refused_of_stored_states_whatever_their_type() -> None:
    for chat in (True, {"a": 1}, np.zeros(2)):
        with pytest.raises(OptionError, match=r"^chat=.* is of prompts, and none are given"):
            bathyscope.survey_states("no/such/states", "nor/this", chat=chat)  # type: ignore[arg-type]
