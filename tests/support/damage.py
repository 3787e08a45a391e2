"""Files that somebody made wrong: one field of a record is another value, or some bytes of a file are others."""

from __future__ import annotations

import io
import json
import random
import re
import struct
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

import h5py
import numpy as np

Path = tuple[Any, ...]
_VALUES: Sequence[Any] = (
    *(None, True, False, -1, 0, 10**30, 1.5, -0.0, "", "x", "NaN", "../../etc", "a\0b", "/etc/passwd", "\x1b]0;t\x07"),
    *([], {}, [[]], {"": {}}, [1, "2", None], "x" * 5000, {"a": [{"b": []}]}),
)
_INTEGERS = (0, 1, 0xFF, 1 << 31, (1 << 63) - 1, (1 << 64) - 1)


def paths(tree: Any, at: Path = ()) -> list[Path]:
    """Every place in a tree of lists and mappings but its root."""
    inner = list(tree.items()) if isinstance(tree, dict) else list(enumerate(tree)) if isinstance(tree, list) else []
    return [path for key, value in inner for path in ((*at, key), *paths(value, (*at, key)))]


def damaged_tree(tree: Any, chance: random.Random) -> Any:
    """Return a copy with one field removed, renamed, doubled or replaced."""
    copy = json.loads(json.dumps(tree))
    *way, last = chance.choice(paths(copy))
    place = copy
    for key in way:
        place = place[key]
    act = chance.choice(("other", "other", "other", "remove", "rename", "deeper"))
    if act == "remove":
        del place[last]
    elif act == "rename" and isinstance(place, dict):
        place[f"{last}_"] = place.pop(last)
    elif act == "deeper":
        place[last] = [place[last]]
    else:
        place[last] = chance.choice(_VALUES)
    return copy


def damaged_text(text: bytes, chance: random.Random) -> bytes:
    """Return a JSON document with one other field; sometimes one that is no JSON, or nested without end."""
    act = chance.random()
    if act < 0.1:
        return damaged_bytes(text, chance)
    if act < 0.15:
        return b"[" * 100_000
    return json.dumps(damaged_tree(json.loads(text), chance)).encode()


def damaged_lines(text: bytes, chance: random.Random) -> bytes:
    """Return a file of JSON lines in which one line is damaged."""
    lines = text.splitlines()
    place = chance.randrange(len(lines))
    lines[place] = damaged_text(lines[place], chance)
    return b"\n".join(lines) + b"\n"


def damaged_bytes(content: bytes, chance: random.Random) -> bytes:
    """Return bytes that are cut short, longer, or have some others among them; most near the beginning."""
    changed = bytearray(content)
    act = chance.randrange(5)
    if act == 0:
        return bytes(changed[: chance.randrange(len(changed))])
    if act == 1:
        return bytes(changed) + chance.randbytes(chance.randrange(1, 64))
    for _ in range(chance.randrange(1, 6)):
        # headers stand at the beginning
        place = min(int(chance.expovariate(8 / len(changed))), len(changed) - 8)
        if act == 2:
            changed[place : place + 8] = struct.pack("<Q", chance.choice(_INTEGERS))
        else:
            changed[place] = chance.randrange(256)
    return bytes(changed)


def damaged_safetensors(content: bytes, chance: random.Random) -> bytes:
    """Return a safetensors file whose header has one other field."""
    if chance.random() < 0.3:
        return damaged_bytes(content, chance)
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    written = header.get("__metadata__", {})
    if written and chance.random() < 0.6:
        # the record inside of the header, which is a text
        name = chance.choice(sorted(written))
        try:
            written[name] = json.dumps(damaged_tree(json.loads(written[name]), chance))
        except ValueError:
            written[name] = "x"
        changed = header
    else:
        changed = damaged_tree(header, chance)
    text = json.dumps(changed).encode()
    return struct.pack("<Q", len(text)) + text + content[8 + length :]


def damaged_results(content: bytes, chance: random.Random) -> bytes:
    """Return a sound file of results of which a group, variable or attribute is another, or missing."""
    stream = io.BytesIO(content)
    with h5py.File(stream, "r+") as file:
        places: list[Any] = [file]
        file.visititems(lambda _, place: places.append(place))
        place = chance.choice(places)
        act = chance.choice(("attribute", "attribute", "no attribute", "remove", "rename", "values", "all attributes"))
        if act == "attribute":
            name = chance.choice([*place.attrs, "x", "scale_factor", "add_offset"])
            place.attrs.pop(name, None)
            place.attrs[name] = chance.choice(("", "x\x1b[31m", "[" * 9000, "{", -1, 2.5, [1, 2], ["a", "b"], 2**62))
        elif act == "no attribute" and len(place.attrs):
            del place.attrs[chance.choice(list(place.attrs))]
        elif act == "all attributes":
            for name in list(place.attrs):
                del place.attrs[name]
        elif place.name != "/" and act in ("remove", "rename", "values"):
            name, group = place.name, place.parent
            values = place[()] if isinstance(place, h5py.Dataset) else None
            del file[name]
            if act == "rename" and values is not None:
                group[f"{name}_"] = values
            elif act == "values":
                group[name] = chance.choice((0, "x", np.zeros((2, 3)), np.zeros(0), np.array([b"a", b"b"])))
    return stream.getvalue()


def damaged_archive(content: bytes, chance: random.Random) -> bytes:
    """Return an archive of ``torch.save`` of which one entry, or what its pickle builds, is another."""
    act = chance.randrange(4)
    if act == 0:
        return damaged_bytes(content, chance)
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as source, zipfile.ZipFile(written, "w") as archive:
        names = source.namelist()
        place = chance.choice(names) if act > 1 else next(name for name in names if name.endswith("data.pkl"))
        for name in names:
            stored = source.read(name)
            if name == place and act == 3 and chance.random() < 0.5:
                continue
            archive.writestr(name, damaged_bytes(stored, chance) if name == place and len(stored) > 8 else stored)
    return written.getvalue()


def damaged_yaml(text: bytes, chance: random.Random) -> bytes:
    """Return a document with one line more, less or doubled, a value of another tag, an alias, or another depth."""
    lines = text.decode().splitlines() or [""]
    place = chance.randrange(len(lines))
    key, colon, _ = lines[place].partition(": ")
    values = (
        *(
            "!!python/object/apply:os.system [x]",
            "!!binary aGk=",
            "&a [*a]",
            "*b",
            "1e999",
            "-.inf",
            "9" * 5000,
            "{a: {a",
        ),
        *("[" * 3000, "\x1b]0;t\x07", "!!set {a}", "2001-01-01", "|", "? x", "'", "yes", "0o17", "../../etc/passwd"),
    )
    act = chance.choice(("value", "value", "value", "twice", "remove", "indent", "bytes"))
    if act == "value" and colon:
        lines[place] = f"{key}: {chance.choice(values)}"
    elif act == "twice":
        lines.insert(place, lines[place])
    elif act == "remove":
        del lines[place]
    elif act == "indent":
        lines[place] = " " * chance.randrange(1, 9) + lines[place]
    else:
        return damaged_bytes(text, chance)
    return "\n".join(lines).encode("utf-8", "replace")


def damaged_gguf(content: bytes, chance: random.Random) -> bytes:
    """Return a GGUF file of which one number behind a name, of a value or of a tensor, is another."""
    if chance.random() < 0.3:
        return damaged_bytes(content, chance)
    changed = bytearray(content)
    names = [match.end() for match in re.finditer(rb"(?:general|llama|tokenizer)\.[a-z_.]+|blk\.\d\.[a-z_.]+", content)]
    place = chance.choice(names) + 4 * chance.randrange(0, 8)
    if chance.random() < 0.5:
        changed[place : place + 4] = struct.pack("<I", chance.choice((0, 1, 8, 9, 12, 0xFFFF, 0xFFFFFFFF)))
    else:
        changed[place : place + 8] = struct.pack("<Q", chance.choice(_INTEGERS))
    return bytes(changed)


Damage = Callable[[bytes, random.Random], bytes]
