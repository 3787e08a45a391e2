"""What strict readers refuse, and what they leave as it is written."""

from __future__ import annotations

from typing import Any

import pytest

from bathyscope.core.strict import read_json, read_yaml, yaml_scalars


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1:30", "1:30"),
        ("190:20:30.15", "190:20:30.15"),
        ("010", "010"),
        ("1_000", "1_000"),
        ("yes", "yes"),
        ("no", "no"),
        ("2001-01-01", "2001-01-01"),
        ("12", 12),
        ("-3", -3),
        ("0", 0),
        ("1e-3", 0.001),
        ("1.5", 1.5),
        (".5", 0.5),
        ("true", True),
        ("false", False),
        ("~", None),
        ("", None),
        ("gsm8k:10", "gsm8k:10"),
    ],
)
def test_yaml_reads_numbers_and_truth_values_alone_as_such(text: str, value: Any) -> None:
    found = read_yaml(f"key: {text}\n")["key"]
    assert found == value
    assert type(found) is type(value)


def test_yaml_keeps_structures_and_merges() -> None:
    assert read_yaml("a: &x {k: 1, l: [1, b]}\nb: {<<: *x, k: 2}\n") == {
        "a": {"k": 1, "l": [1, "b"]},
        "b": {"k": 2, "l": [1, "b"]},
    }


@pytest.mark.parametrize("text", ["seed: 1\nlens: {}\nseed: 2\n", "lens: {seed: 1, seed: 1}\n"])
def test_a_yaml_key_given_twice_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"'seed' is given twice .*; keep one"):
        read_yaml(text)


@pytest.mark.parametrize("text", ['{"a": 1, "a": 1}', '[{"b": {"a": 1, "a": 2}}]'])
def test_a_json_key_given_twice_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="'a' is given twice; keep one"):
        read_json(text)


def test_json_is_read_exactly() -> None:
    assert read_json('{"a": 9007199254740993, "b": [null, "x", 1.5]}') == {"a": 2**53 + 1, "b": [None, "x", 1.5]}


@pytest.mark.parametrize(
    ("read", "text", "words"),
    [
        (read_json, "[" * 200_000, "nested too deep"),
        (read_yaml, "[" * 3000, "nested too deep"),
        (read_json, "1" * 5000, "digits"),
        (read_yaml, "k: " + "1" * 5000, "digits"),
        (read_json, "{", "Expecting"),
        (read_yaml, "k: [", "flow node"),
        (read_yaml, "? [a]\n: 1\n", "unhashable"),
    ],
)
def test_what_cannot_be_read_is_a_value_error(read: Any, text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read(text)


@pytest.mark.parametrize("entry", ["{a: 1},", "- a\n", "[],", "a: 1\r", "? a\n"])
def test_documents_of_very_many_values_are_refused_before_they_are_read(entry: str) -> None:
    for read in (read_yaml, lambda text: list(yaml_scalars(text))):
        with pytest.raises(ValueError, match="it has more than 20,000 lines, commas, colons and brackets"):
            read("lens: [" + entry * 95_000 + "]")
    # a long text is one value
    assert len(read_yaml("a: " + "x " * 100_000)["a"]) == 199_999


def test_aliases_of_aliases_are_not_yielded_to_be_written_out_by_others() -> None:
    """The harness's loader merged ten mappings of ten mappings for minutes."""
    lines = ["a0: &a0 {k: 1}", *(f"a{n}: &a{n}\n  <<: [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9))]
    for read in (read_yaml, lambda text: list(yaml_scalars(text))):
        with pytest.raises(ValueError, match="its aliases stand for more than 100,000 values"):
            read("\n".join(lines))


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b'{"a": "B\xe4r"}'])
def test_bytes_that_are_not_utf_8_are_said_to_be_none(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"^not UTF-8 text .*; convert it to UTF-8$"):
        read_json(content)
