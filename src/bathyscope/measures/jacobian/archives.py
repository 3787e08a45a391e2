"""Archives of ``torch.save``, looked at before they are read: tensors in dicts and lists, and nothing else.

PyTorch's reader of plain weights runs no code, and still calls what takes memory at once (``bytearray(4_000_000_000)``
is 30 bytes in a file) or does something else than hold tensors. What a file would have it do is therefore listed first,
without doing it.
"""

from __future__ import annotations

import pickletools
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Final

from bathyscope.core.foreign import open_regular

_BEGINNING: Final = b"PK\x03\x04"
_PICKLE: Final = "data.pkl"
_MOST_BYTES: Final = 1 << 24
"""Bytes of what is stored besides the numbers of tensors, at most: 16 MiB are 100,000 tensors."""
_CONSTANTS: Final = (
    "PROTO STOP MARK NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT BINUNICODE EMPTY_DICT EMPTY_LIST "
    "EMPTY_TUPLE BINPUT LONG_BINPUT BINGET LONG_BINGET"
)
_CONTAINERS: Final = "APPEND APPENDS SETITEM SETITEMS TUPLE TUPLE1 TUPLE2 TUPLE3"
_TENSORS: Final = "GLOBAL REDUCE BINPERSID"
_STEPS: Final = frozenset(f"{_CONSTANTS} {_CONTAINERS} {_TENSORS}".split())
_TUPLES: Final = frozenset({"TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"})
_CALLED: Final = frozenset(
    {"collections OrderedDict", "torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_parameter"}
)


def require_plain_archive(path: Path) -> None:
    """Refuse a file that is no archive of ``torch.save``, or that would have the reader do more than fill tensors.

    Raises:
        ValueError: says what it holds.
        OSError, zipfile.BadZipFile: it cannot be read.
    """
    with open_regular(path) as stream:
        # the beginning decides how PyTorch reads it; archives are looked for at the end
        if stream.read(len(_BEGINNING)) != _BEGINNING:
            raise ValueError("it is no archive of torch.save")
        archive = zipfile.ZipFile(stream)
        entries = archive.infolist()
        packed = next((entry for entry in entries if entry.compress_type != zipfile.ZIP_STORED), None)
        if packed is not None:
            raise ValueError(f"{packed.filename} is compressed, which no file of torch.save is")
        # other readers of archives take capitals for the same letters
        names = [entry.orig_filename.lower() for entry in entries]
        if len(set(names)) < len(names):
            raise ValueError("two of its entries have one name")
        for entry, name in zip(entries, names):
            if name.endswith(_PICKLE):
                if entry.file_size > _MOST_BYTES:
                    raise ValueError(f"its {_PICKLE} has {entry.file_size:,} bytes, and no lens needs as many")
                _require_plain(archive.read(entry))


def _require_plain(pickled: bytes) -> None:
    """Refuse steps of a pickle that a dict of tensors does not need; none of them is taken."""
    tuples, last, puts = set[int](), "", 0
    for step, argument, _ in pickletools.genops(BytesIO(pickled)):
        name = step.name
        if name not in _STEPS:
            raise ValueError(f"it takes the step {name}, which no dict of tensors needs")
        if name == "GLOBAL" and not _is_of_tensors(str(argument)):
            raise ValueError(f"it calls {str(argument).replace(' ', '.')}")
        if name in ("BINPUT", "LONG_BINPUT"):
            puts += 1
            if argument != puts - 1:
                raise ValueError("it numbers its values out of order")
            if last in _TUPLES:
                tuples.add(argument)
        elif name in ("BINGET", "LONG_BINGET") and argument in tuples:
            # tuples of the same tuples, forty times: hashing them has no end
            raise ValueError("it holds one tuple twice")
        last = name


def _is_of_tensors(name: str) -> bool:
    module, _, attribute = name.partition(" ")
    is_of_torch = module == "torch" and (attribute.endswith("Storage") or attribute.startswith(("float", "bfloat")))
    return is_of_torch or name in _CALLED
