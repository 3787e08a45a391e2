"""Flags derived from dataclasses: names, types, defaults and help are read, never repeated."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest
from cyclopts import App, CycloptsError, Parameter, Token

import bathyscope
from bathyscope.cli import main
from bathyscope.cli.app import app
from bathyscope.cli.commands.survey import CALL, call_flags, measure_flags
from bathyscope.cli.flags import (
    add_flags,
    join_options,
    make_flags,
    nest_options,
    options_of_call,
    read_whole_number,
)
from bathyscope.core.bundles import names_in
from bathyscope.measures.registry import MEASURES
from bathyscope.surveying.options import BUNDLES


@dataclass(frozen=True)
class Options:
    """Options of a made-up measure.

    Args:
        deep_ends: which ends; None = both,
            on two lines.
        share: of the ``whole``.
        places: lists of places.
        names: of people.
        on: whether it is on.
        off: whether it is off.
        kind: one of two.
    """

    deep_ends: tuple[int, ...] | None = None
    share: float = 0.5
    places: tuple[tuple[int, ...], ...] | None = None
    names: tuple[str, ...] = ("ann", "bob")
    on: bool = True
    off: bool = False
    kind: Literal["a", "b"] = "a"


def parsed(*tokens: str) -> dict[str, Any]:
    seen: dict[str, Any] = {}

    def body(**options: Any) -> int:
        seen.update(options)
        return 0

    command = App(result_action="return_value", exit_on_error=False, print_error=False)
    command.default(add_flags(body, make_flags(Options, "made_up")))
    assert command(list(tokens)) == 0
    return nest_options(seen)


def of(name: str) -> Parameter:
    found = next(p for p in make_flags(Options, "made_up") if p.name == f"made_up__{name}")
    parameter: Parameter = get_args(found.annotation)[1]
    return parameter


def test_name_help_and_default_come_from_the_dataclass() -> None:
    assert of("deep_ends").name == ("--made-up.deep-ends",)
    assert of("deep_ends").help == "which ends; not given = both, on two lines."
    assert of("deep_ends").show_default is False
    assert of("share").help == "of the whole."
    assert of("share").show_default == "0.5"
    assert of("names").show_default == "ann,bob"


def test_only_what_was_given_arrives() -> None:
    assert parsed() == {}
    assert parsed("--made-up.share", "0.25") == {"made_up": {"share": 0.25}}


def test_values_have_the_fields_types() -> None:
    lists = ("--made-up.deep-ends", "1,-2", "--made-up.names", "cy")
    tokens = (*lists, "--made-up.no-on", "--made-up.off", "--made-up.kind", "b")
    assert parsed(*tokens) == {
        "made_up": {"deep_ends": [1, -2], "names": ["cy"], "on": False, "off": True, "kind": "b"}
    }
    assert parsed("--made-up.places", "[[1, 2], []]") == {"made_up": {"places": [[1, 2], []]}}


def test_lists_are_read_where_somebody_has_imported_pydantic() -> None:
    """With which cyclopts compares values with the types of their flags; plugins and Ray import it."""
    pytest.importorskip("pydantic")
    assert parsed("--made-up.deep-ends", "1,-2", "--made-up.names", "cy") == {
        "made_up": {"deep_ends": [1, -2], "names": ["cy"]}
    }


@pytest.mark.parametrize(
    ("flag", "value"),
    [("share", "half"), ("places", "1,2"), ("places", "[[1"), ("kind", "c"), ("no-off", "")],
)
def test_values_of_another_type_are_refused(flag: str, value: str) -> None:
    with pytest.raises(CycloptsError):
        parsed(f"--made-up.{flag}", *([value] if value else []))


def test_ranges_and_names_are_in_the_help() -> None:
    texts = {p.name: get_args(p.annotation)[1].help for p in measure_flags()}
    assert texts["lens__k"].endswith("; allowed: 1 or more.")
    assert texts["skip__parts"].endswith("; allowed: block, attention, mlp.")


def test_names_that_the_parser_lists_are_not_listed_again() -> None:
    texts = {p.name: get_args(p.annotation)[1].help for p in call_flags()}
    assert "allowed" not in texts["attn"]
    assert "allowed: 1 or more" in texts["workers"]


def test_help_speaks_of_flags_and_not_of_python() -> None:
    texts = {p.name: get_args(p.annotation)[1].help for p in call_flags()}
    assert texts["stream"] == "short for --placement stream. Not with --placement resident."
    assert "yes = run them where" in texts["beyond_context"]
    assert [name for name, text in texts.items() if re.search(r"True|False|None|``|\. not ", text)] == []


def test_arguments_of_functions_become_options() -> None:
    def first(name: str, size: int = 3, *, left_out: bool = False, **rest: Any) -> None:
        """Does something.

        Args:
            name: of the thing.
            size: of it.
        """

    def second(size: float = 0.1, tags: Sequence[str] = ()) -> None:
        """Does something else.

        Args:
            tags: of it.
        """

    joined = join_options(options_of_call(first, leave_out=("left_out",)), options_of_call(second))
    assert [(option.name, option.default, option.metadata["help"]) for option in fields(joined)] == [
        ("name", None, "of the thing."),
        ("size", 3, "of it."),
        ("tags", (), "of it."),
    ]


def test_every_option_of_every_measure_has_one_flag_with_help() -> None:
    wanted = {f"{name}__{one.name}" for name, m in MEASURES.items() for one in fields(m.options_type)}
    # places by name, which a help lists with the option itself
    wanted |= {f"{name}__positions__by_name" for name in ("skip", "direct", "erasure", "patching")}
    found = measure_flags()
    assert {p.name for p in found} == wanted
    assert len(found) == len(wanted)
    assert [p.name for p in found if not get_args(p.annotation)[1].help] == []


def test_every_argument_of_the_survey_can_be_given() -> None:
    # what workers load a model with are the flags of load
    arguments = {*inspect.signature(bathyscope.survey).parameters, *names_in(BUNDLES)}
    arguments -= {"progress", "command", "loading", *BUNDLES}
    assert arguments - {"model", "options"} <= {option.name for option in fields(CALL)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seed", "abc"], "--seed: 'abc' is not a whole number; write it in digits, such as 1000."),
        (["--seed", "1.5"], "--seed: '1.5' is not a whole number; write it in digits, such as 1000."),
        (["--batch-tokens", "1e3"], "--batch-tokens: '1e3' is not a whole number; write it in digits, such as 1000."),
        (["--seed", "9" * 5000], f"--seed: '{'9' * 38}… is out of range; a whole number has at most 18 digits."),
        (["--worker-timeout", "x"], "--worker-timeout: 'x' is not a number; write it in digits, such as 0.5."),
        (
            ["--skip.positions", "3"],
            "--skip.positions: '3' is not a list of lists; write it as JSON: '[[9, 41], [17]]'.",
        ),
        (
            ["--erasure.positions", '{"at": '],
            """--erasure.positions: '{"at": ' is not a JSON object (Expecting value""",
        ),
        (["--skip.positions", "[1"], "--skip.positions: '[1' is not a JSON list (Expecting ',' delimiter: line 1 colu"),
    ],
)
def test_wrong_values_are_repeated(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["survey", "model", "--prompts", "x.jsonl", *arguments]) == 2
    assert f"error: Invalid value for {message}" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["7", "+7", "-7", "007"])
def test_whole_numbers_are_read_as_typed(text: str) -> None:
    assert read_whole_number(text) == int(text)


def numeric_flags(command: App, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str, Any]]:
    """Path of the command, flag and reader of every flag of a whole or other number."""
    for name in command:
        if not name.startswith("-"):
            yield from numeric_flags(command[name], (*path, name))
    if command.default_command is None:
        return
    for parameter in inspect.signature(command.default_command).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and get_origin(parameter.annotation) is Annotated:
            kind, *marks = get_args(parameter.annotation)
            if {int, float} & {kind, *get_args(kind)}:
                options = Parameter.combine(*(mark for mark in marks if isinstance(mark, Parameter)))
                yield path, parameter.name, options.converter


def test_every_numeric_flag_of_every_command_repeats_what_it_refuses() -> None:
    flags = list(numeric_flags(app))
    assert len(flags) > 150
    assert len({path for path, _, _ in flags}) > 15
    for path, name, reader in flags:
        assert reader is not None, (path, name)
        with pytest.raises(ValueError, match=r"'1\.5\.2' is not a (whole )?number; write it in digits"):
            reader(None, [Token(value="1.5.2")])
