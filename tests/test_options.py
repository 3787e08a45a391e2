"""Plain values of a call or a recipe, made into typed options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Annotated, Any, Literal, get_type_hints

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import bathyscope
from bathyscope.core.calls import checked
from bathyscope.errors import OptionError
from bathyscope.measures.of.skip import SkipOptions
from bathyscope.options import Coverage, Distinct, Range, choices, coerce, convert_plain_values, items_of


@dataclass(frozen=True)
class Options:
    k: int = 5
    level: float = 0.95
    norm: tuple[str, ...] = ("recompute",)
    bias: bool = True
    name: str = "plain"
    positions: tuple[tuple[int, ...], ...] | None = None


@dataclass(frozen=True)
class Nothing:
    pass


def test_what_has_been_checked_is_not_checked_again() -> None:
    made = coerce(Options, {"level": 1}, "one")
    assert coerce(Options, made, "one") is made
    with pytest.raises(OptionError, match="one: k takes a whole number; '3' given"):
        coerce(Options, replace(made, k="3"), "one")


def test_defaults() -> None:
    assert coerce(Options, None, "lens") == Options()
    assert coerce(Options, {}, "lens") == Options()
    assert coerce(Nothing, {}, "residual") == Nothing()


def test_an_instance_is_held_to_the_same_rules() -> None:
    assert coerce(Options, Options(k=3), "lens") == Options(k=3)
    listed = Options(positions=[[1, 2]])  # type: ignore[arg-type]
    assert coerce(Options, listed, "lens") == Options(positions=((1, 2),))
    with pytest.raises(OptionError, match="lens: k takes a whole number; '3' given"):
        coerce(Options, Options(k="3"), "lens")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"k": 3}, Options(k=3)),
        ({"k": np.int64(3)}, Options(k=3)),
        ({"level": 1}, Options(level=1.0)),
        ({"level": np.float32(0.5)}, Options(level=0.5)),
        ({"norm": "frozen"}, Options(norm=("frozen",))),
        ({"norm": ["recompute", "frozen"]}, Options(norm=("recompute", "frozen"))),
        ({"norm": []}, Options(norm=())),
        ({"bias": False}, Options(bias=False)),
        ({"positions": [[9, 41], [17], []]}, Options(positions=((9, 41), (17,), ()))),
        ({"positions": np.array([[1, 2], [3, 4]])}, Options(positions=((1, 2), (3, 4)))),
        ({"positions": None}, Options()),
    ],
)
def test_values(given: dict[str, object], expected: Options) -> None:
    got = coerce(Options, given, "lens")
    assert got == expected
    assert type(got.k) is int
    assert type(got.level) is float
    assert hash(got) == hash(expected)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"lenght": 3}, "lens has no option 'lenght'. Allowed: k, level, norm, bias, name, positions."),
        ({"levle": 3}, "lens has no option 'levle'. Did you mean 'level'?"),
        ({"k": 3.0}, "lens: k takes a whole number; 3.0 given."),
        ({"k": "3"}, "lens: k takes a whole number; '3' given."),
        ({"k": np.array([1, 2])}, "lens: k takes a whole number; an object of type ndarray given."),
        ({"k": True}, "lens: k takes a whole number; True given."),
        ({"k": None}, "lens: k takes a whole number; None given."),
        ({"level": "high"}, "lens: level takes a number; 'high' given."),
        ({"level": np.array([1.0, 2.0])}, "lens: level takes a number; an object of type ndarray given."),
        ({"level": "0.5"}, "lens: level takes a number; '0.5' given."),
        ({"level": False}, "lens: level takes a number; False given."),
        ({"bias": 1}, "lens: bias takes true or false; 1 given."),
        ({"bias": "yes"}, "lens: bias takes true or false; 'yes' given."),
        ({"name": 3}, "lens: name takes a text; 3 given."),
        ({"norm": [1]}, "lens: norm takes a text; 1 given."),
        ({"norm": None}, "lens: norm takes a list; None given."),
        ({"positions": [[1], "ab"]}, "lens: positions=[[1], 'ab'] is no list of lists. Give one for each prompt, such"),
        ({"positions": [["ab"]]}, "lens: positions takes a whole number; 'ab' given."),
        ({"positions": [[1.5]]}, "lens: positions takes a whole number; 1.5 given."),
    ],
)
def test_errors(given: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        coerce(Options, given, "lens")
    assert message in str(caught.value)


@pytest.mark.parametrize("given", [[("k", 3)], "k=3", 3, SimpleNamespace(k=3), Nothing()])
def test_options_are_a_mapping_or_their_class(given: object) -> None:
    with pytest.raises(OptionError, match=rf"lens: options are a dict or Options; {type(given).__name__} given"):
        coerce(Options, given, "lens")


def test_where_there_is_nothing_to_set() -> None:
    with pytest.raises(OptionError, match=r"residual has no option 'k'. Allowed: none"):
        coerce(Nothing, {"k": 3}, "residual")


@dataclass(frozen=True)
class Allowed:
    axis: Literal["tokens", "channels"] = "tokens"
    parts: Annotated[tuple[Literal["block", "mlp"], ...], Distinct()] = ("block",)
    offsets: Annotated[tuple[Annotated[int, Range(1)], ...], Distinct()] = (1,)
    times: Annotated[int, Range(1, 64)] = 1
    top_p: Annotated[float, Range(0.25, 1)] = 0.9
    max_tokens: Annotated[int | None, Range(2, none="no limit")] = 64
    blocks: Annotated[tuple[int, ...] | None, Distinct()] = None


def test_what_is_allowed() -> None:
    given = {"axis": "channels", "parts": ["mlp", "block"], "times": 64, "top_p": 0.25, "max_tokens": None, "blocks": 3}
    expected = Allowed("channels", ("mlp", "block"), (1,), 64, 0.25, None, (3,))
    assert coerce(Allowed, given, "skip") == expected
    assert coerce(Allowed, {"max_tokens": 2, "blocks": None, "times": 1}, "skip") == Allowed(max_tokens=2)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"axis": "token"}, "skip: axis='token' is unknown. Did you mean 'tokens'? Allowed: tokens, channels."),
        ({"axis": 3}, "skip: axis=3 is unknown. Allowed: tokens, channels."),
        ({"parts": ["blok"]}, "skip: parts='blok' is unknown. Did you mean 'block'? Allowed: block, mlp."),
        ({"parts": []}, "skip: parts=[] is not allowed; give at least one, each once; allowed: block, mlp."),
        ({"parts": ["mlp", "mlp"]}, "skip: parts=['mlp', 'mlp'] is not allowed; give at least one, each once; allowed"),
        ({"offsets": [1, 0]}, "skip: offsets=0 is out of range; allowed: 1 or more."),
        ({"offsets": [2, 2]}, "skip: offsets=[2, 2] is not allowed; give at least one, each once; allowed: 1 or more."),
        ({"times": 65}, "skip: times=65 is out of range; allowed: 1 to 64."),
        ({"times": 0}, "skip: times=0 is out of range; allowed: 1 to 64."),
        ({"times": "2"}, "skip: times takes a whole number; '2' given."),
        ({"top_p": float("nan")}, "skip: top_p=nan is out of range; allowed: 0.25 to 1."),
        ({"max_tokens": 1}, "skip: max_tokens=1 is out of range; allowed: 2 or more, or None (no limit)."),
        ({"blocks": []}, "skip: blocks=[] is not allowed; give at least one, each once."),
    ],
)
def test_what_is_not_allowed(given: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        coerce(Allowed, given, "skip")
    assert message in str(caught.value)
    # an instance is held to the same rules as a mapping
    with pytest.raises(OptionError) as caught:
        coerce(Allowed, Allowed(**given), "skip")  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_choices_in_words() -> None:
    hints = get_type_hints(Allowed, include_extras=True)
    assert {name: choices(hint) for name, hint in hints.items()} == {
        "axis": "tokens, channels",
        "parts": "block, mlp",
        "offsets": "1 or more",
        "times": "1 to 64",
        "top_p": "0.25 to 1",
        "max_tokens": "2 or more, or None (no limit)",
        "blocks": "",
    }


@checked
def asked(
    model: object, level: Coverage = 0.9, names: Sequence[str] = (), seed: int = 0, most: int | None = None
) -> Any:
    """Stands for a public function."""
    return model, level, names, seed, most


def test_plain_arguments_are_checked_by_their_annotations() -> None:
    assert asked("any", 0.5, ["a"], most=3) == ("any", 0.5, ["a"], 0, 3)
    assert asked(3, seed=np.int64(7))[3] == 7
    for given, said in (
        ({"level": "a"}, "level takes a number; 'a' given."),
        ({"level": 2}, "level=2.0 is out of range; allowed: 0.01 to 0.9999."),
        ({"names": [3]}, "names takes a text; 3 given."),
        ({"seed": -1}, "seed=-1 is out of range; allowed: 0 to 4294967295."),
        ({"seed": True}, "seed takes a whole number; True given."),
        ({"most": 1.5}, "most takes a whole number; 1.5 given."),
    ):
        with pytest.raises(OptionError, match=said):
            asked("any", **given)  # type: ignore[arg-type]


@hypothesis.given(names=st.lists(st.text("abcxyz_:+-0123456789", min_size=1, max_size=6), min_size=1, max_size=5))
@hypothesis.settings(max_examples=50, deadline=None)
def test_a_text_is_the_list_of_the_names_in_it(names: list[str]) -> None:
    """Of one name, of several as at a shell, and of a list: the same everywhere."""
    for text in (",".join(names), " , ".join(names), f"{','.join(names)},"):
        assert items_of(text) == items_of(names) == items_of(tuple(names)) == names
        assert asked("any", names=text)[2] == names
        assert coerce(Named, {"names": text}, "any").names == tuple(names)


@dataclass(frozen=True)
class Named:
    """Options with a list of texts."""

    names: tuple[str, ...] = ()


def test_arguments_that_a_call_does_not_take_are_told_with_its_name() -> None:
    @checked
    def compare(runs: list[object], level: float = 0.95) -> None: ...

    with pytest.raises(
        TypeError, match=r"^compare\(\): too many positional arguments\. See help\(bathyscope\.compare\)\.$"
    ):
        compare([], 0.9, 3)  # type: ignore[call-arg]
    with pytest.raises(
        TypeError, match=r"^compare\(\): got an unexpected keyword argument 'levle'\. Did you mean 'level'\?"
    ):
        compare([], levle=0.9)  # type: ignore[call-arg]


def test_items_are_a_list_or_one_text() -> None:
    assert items_of("lens, skip,") == ["lens", "skip"]
    assert items_of(("lens",)) == ["lens"]
    with pytest.raises(OptionError, match=r"^3 is no list; give one, or a text with commas between its items\.$"):
        items_of(3)  # type: ignore[arg-type]


def test_the_values_of_a_dict_are_not_dropped() -> None:
    with pytest.raises(OptionError) as caught:
        items_of({"lens": 1, "skip": 2})
    assert str(caught.value) == (
        "{'lens': 1, 'skip': 2} is a dict, and only a list is read, without values; give one, such as ['lens', 'skip']."
    )
    with pytest.raises(
        OptionError, match=r"^Options of skip: parts=\{'block': 1\} is a dict, .* such as \['block'\]\.$"
    ):
        coerce(SkipOptions, {"parts": {"block": 1}}, "Options of skip")


class Frame:
    """Compared and hashed as a data frame is: elementwise, and not at all."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> Any:
        return self

    def __bool__(self) -> bool:
        raise ValueError("the truth value of a frame is ambiguous")


@pytest.mark.parametrize("value", [np.zeros(3), Frame(), [1], {}], ids=lambda value: type(value).__name__)
def test_what_is_no_choice_is_refused_in_a_sentence_whatever_its_type(value: Any) -> None:
    @checked
    def verb(how: Literal["block", "mlp"] = "block") -> str:
        return how

    with pytest.raises(OptionError, match=r"^how=.* is unknown\. Allowed: block, mlp\.$"):
        verb(how=value)


@pytest.mark.parametrize("value", [b"x", b"5", bytearray(b"1"), np.zeros(2), 10**400], ids=lambda v: type(v).__name__)
def test_what_is_no_number_is_refused_in_a_sentence_whatever_its_type(value: Any) -> None:
    @checked
    def verb(level: float = 0.95) -> float:
        return level

    with pytest.raises(OptionError, match=r"^level takes a number; .* given\.$"):
        verb(level=value)


def test_a_number_is_no_list_of_texts() -> None:
    with pytest.raises(OptionError, match="models takes a list of texts; 5 given"):
        bathyscope.reproduce("hu2025", models=5)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"covariates takes a list of texts; 2\.5 given"):
        convert_plain_values({"covariates": Sequence[str]}, {"covariates": 2.5})
    assert convert_plain_values({"sizes": Sequence[int]}, {"sizes": 5}) == {"sizes": [5]}
