"""JSON and YAML as written: a key given twice is refused, and no text becomes a number by an old rule of YAML."""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

# YAML 1.2's core types; 1.1 reads 1:30 as 90, 010 as 8, yes and no as truth values, and dates
_YAML_TYPES = {
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "int": (r"[-+]?(?:0|[1-9][0-9]*)", list("-+0123456789")),
    "float": (
        r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
    "merge": (r"<<", ["<"]),
}


DAMAGED = (OSError, ValueError, TypeError, LookupError, AttributeError, RuntimeError, ArithmeticError)
"""What readers raise on content that nobody wrote, whatever is wrong with it; each makes its own error of all of them.

Lack of memory is no damage, and says so itself.
"""

_MERGE = "tag:yaml.org,2002:merge"
_TOO_DEEP = "nested too deep to be read; write it shorter"


_MOST_DIGITS = 18
_MOST_VALUES = 100_000
_SEPARATORS = ",:\n\r\x85\u2028\u2029[{?"
_MOST_SEPARATORS = 20_000


def whole_number_in(text: str) -> int | None:
    """Return the whole number that a text writes out; None for any other text, and for more than 18 digits.

    Python itself refuses to read a number of thousands of digits, which nothing that a user counts has.
    """
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS else None


class GivenTwiceError(ValueError):
    """One key of a mapping has two values."""


def read_json(text: str | bytes, deepest: int | None = None) -> Any:
    """The value of a JSON document.

    Args:
        text: UTF-8 where it is bytes.
        deepest: lists and objects inside of each other, at most; None = as deep as can be read.

    Raises:
        json.JSONDecodeError: no JSON.
        ValueError: bytes that are not UTF-8, a key given twice, a number of thousands of digits, or nested too deep.
    """
    try:
        value = json.loads(text, object_pairs_hook=_once)
    except (json.JSONDecodeError, GivenTwiceError):
        raise
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 text ({error.reason}); convert it to UTF-8") from error
    except ValueError as error:
        raise ValueError("a number of too many digits to be read; write it shorter") from error
    if deepest is not None and _is_deeper(value, deepest):
        raise ValueError(_TOO_DEEP)
    return value


def _is_deeper(value: Any, most: int) -> bool:
    """Whether lists and mappings lie inside of each other more often than ``most`` times; asked without recursion."""
    level = [value]
    for _ in range(most + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, list | dict)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, list | dict)
        ]
        if not level:
            return False
    return True


def read_yaml(text: str) -> Any:
    """The value of a YAML document.

    Raises:
        ValueError: no YAML, a key given twice, a number of thousands of digits, or nested too deep.
    """
    import yaml

    _require_few(text)
    try:
        return yaml.load(text, _yaml_loader())
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error
    except (KeyError, IndexError, AttributeError, OverflowError, TypeError) as error:
        raise ValueError(f"a value that its tag does not allow ({type(error).__name__}: {error})") from error


def _require_few(text: str) -> None:
    """Refuse a document of very many values, each of which costs a reader as much as a page of plain text."""
    if sum(map(text.count, _SEPARATORS)) > _MOST_SEPARATORS:
        raise ValueError(f"it has more than {_MOST_SEPARATORS:,} lines, commas, colons and brackets; write it shorter")


class YamlScalar(NamedTuple):
    """A value in a YAML document, and where it stands.

    ``key`` is the name that it, or the list that it is in, is given under; ``tag`` is empty for YAML's own types.
    """

    key: str
    tag: str
    text: str


def yaml_scalars(text: str) -> Iterator[YamlScalar]:
    """Yield the values of a YAML document and the tags of its lists and mappings; none of them is made into an object.

    Raises:
        ValueError: no YAML, or nested too deep.
    """
    import yaml

    _require_few(text)
    try:
        node = yaml.compose(text, yaml.SafeLoader)
        size = 0 if node is None else _written_out(node, {})
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error
    # whoever makes objects of it afterwards would write them out
    if size > _MOST_VALUES:
        raise ValueError(f"its aliases stand for more than {_MOST_VALUES:,} values; write fewer")
    own_tags = yaml.SafeLoader.yaml_constructors.keys()
    waiting, seen = [("", node)] if node is not None else [], set[tuple[str, int]]()
    while waiting:
        key, node = waiting.pop()
        # an alias is the same node again
        if (key, id(node)) in seen:
            continue
        seen.add((key, id(node)))
        is_scalar = isinstance(node, yaml.ScalarNode)
        # the merge of YAML 1.1 has a tag without a constructor
        tag = "" if node.tag in own_tags or node.tag == _MERGE else node.tag
        if is_scalar or tag:
            yield YamlScalar(key, tag, node.value if is_scalar else "")
        if isinstance(node, yaml.SequenceNode):
            waiting += [(key, item) for item in node.value]
        elif isinstance(node, yaml.MappingNode):
            for name, value in node.value:
                waiting += [("", name), (name.value if isinstance(name, yaml.ScalarNode) else "", value)]


def _written_out(node: Any, sizes: dict[int, float]) -> float:
    """Count the values of a node with every alias in its place; ten aliases of ten aliases of … have no end."""
    if id(node) not in sizes:
        # while it is looked at: an alias of what holds it
        sizes[id(node)] = math.inf
        inner = node.value if isinstance(node.value, list) else []
        parts = [part for item in inner for part in (item if isinstance(item, tuple) else (item,))]
        sizes[id(node)] = 1 + sum(_written_out(part, sizes) for part in parts)
    return sizes[id(node)]


def _once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    # json keeps the last of two values without a word; the first may be what was meant.
    mapping: dict[str, Any] = {}
    for key, value in pairs:
        if key in mapping:
            raise GivenTwiceError(f"{key!r} is given twice; keep one")
        mapping[key] = value
    return mapping


@cache
def _yaml_loader() -> Any:
    """A safe loader with YAML 1.2's types, which refuses a key given twice."""
    import yaml

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012

        def get_single_node(self) -> Any:
            node = super().get_single_node()
            if node is not None and _written_out(node, {}) > _MOST_VALUES:
                raise ValueError(f"its aliases stand for more than {_MOST_VALUES:,} values; write fewer")
            return node

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            seen = set()
            for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
                written = (key.tag, key.value) if isinstance(key, yaml.ScalarNode) else id(key)
                if written in seen:
                    line = key.start_mark.line + 1
                    raise GivenTwiceError(f"{key.value!r} is given twice (line {line}); keep one")
                seen.add(written)
            return super().construct_mapping(node, deep)

    def refuse(loader: Any, node: Any) -> Any:
        line = node.start_mark.line + 1
        raise ValueError(f"{node.tag.rpartition(':')[2]} in line {line} is no kind of value here; write a list")

    for tag in ("set", "omap", "pairs", "binary", "timestamp"):
        Loader.add_constructor(f"tag:yaml.org,2002:{tag}", refuse)
    for name, (pattern, first) in _YAML_TYPES.items():
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{name}", re.compile(f"(?:{pattern})\\Z"), first)
    return Loader


def plain(value: Any) -> Any:
    """``value`` in JSON's own types: arrays and tuples as lists, numbers that are not finite as None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
