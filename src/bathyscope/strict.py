"""JSON and YAML as written: a key given twice is refused, and no text becomes a number by an old rule of YAML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache
from typing import Any

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


def read_json(text: str | bytes) -> Any:
    """The value of a JSON document.

    Raises:
        ValueError: no JSON, a key given twice, a number of thousands of digits, or nested too deeply.
    """
    try:
        return json.loads(text, object_pairs_hook=_once)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def read_yaml(text: str) -> Any:
    """The value of a YAML document.

    Raises:
        ValueError: no YAML, a key given twice, a number of thousands of digits, or nested too deeply.
    """
    import yaml

    try:
        return yaml.load(text, _yaml_loader())
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} is given twice")
        found[key] = value
    return found


@cache
def _yaml_loader() -> Any:
    """A safe loader with YAML 1.2's types, which refuses a key given twice."""
    import yaml

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            seen = set()
            for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
                written = (key.tag, key.value) if isinstance(key, yaml.ScalarNode) else id(key)
                if written in seen:
                    raise ValueError(f"the key {key.value!r} is given twice (line {key.start_mark.line + 1})")
                seen.add(written)
            return super().construct_mapping(node, deep)

    for name, (pattern, first) in _YAML_TYPES.items():
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{name}", re.compile(f"(?:{pattern})\\Z"), first)
    return Loader
