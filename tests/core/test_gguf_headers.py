"""Headers of GGUF files, read quickly: the same values, and no work of the library's for each token."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from gguf import GGUFEndian, GGUFReader, GGUFWriter
from transformers.integrations.ggml import _gguf_parse_value

from bathyscope.core.gguf_headers import quick_headers


def written(path: Path, tokens: int, endian: GGUFEndian = GGUFEndian.LITTLE) -> Path:
    writer = GGUFWriter(path, "llama", endianess=endian)
    writer.add_name("Näme")
    writer.add_array("ints", list(range(-5, tokens)))
    writer.add_array("floats", [value / 3 for value in range(tokens)])
    writer.add_array("truths", [True, False, True])
    writer.add_array("empty", [])
    writer.add_array("nested", [[1, 2], [3]])
    writer.add_token_list([f"tök{number}" * (number % 7) for number in range(tokens)])
    writer.add_token_types([1] * tokens)
    writer.add_bool("true", True)
    writer.add_tensor("a.weight", np.arange(12, dtype=np.float32).reshape(3, 4))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def values(reader: GGUFReader) -> dict[str, Any]:
    return {
        name: (field.types, [_gguf_parse_value(field.parts[index], field.types) for index in field.data])
        for name, field in reader.fields.items()
        if name != "nested"
    }


@pytest.mark.parametrize("endian", GGUFEndian)
def test_every_value_is_the_one_that_the_library_reads(endian: GGUFEndian, tmp_path: Path) -> None:
    path = written(tmp_path / "a.gguf", 300, endian)
    plain = GGUFReader(path)
    with quick_headers():
        quick = gguf.GGUFReader(path)
    assert type(quick) is not GGUFReader
    assert values(quick) == values(plain)
    assert values(quick)["tokenizer.ggml.tokens"][1][3] == "tök3" * 3
    assert [int(number) for number in quick.fields["nested"].parts[-1]] == [3]
    assert (quick.data_offset, quick.alignment, quick.byte_order) == (
        *(plain.data_offset, plain.alignment, plain.byte_order),
    )
    np.testing.assert_array_equal(quick.tensors[0].data, plain.tensors[0].data)
    assert quick.tensors[0].name == "a.weight"


def test_a_larger_vocabulary_is_no_more_calls_of_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, get = [], GGUFReader._get

    def counted(self: GGUFReader, *arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        return get(self, *arguments, **options)

    monkeypatch.setattr(GGUFReader, "_get", counted)
    counts = []
    for tokens in (10, 400):
        calls.clear()
        with quick_headers():
            gguf.GGUFReader(written(tmp_path / f"{tokens}.gguf", tokens))
        counts.append(len(calls))
    assert counts[0] == counts[1] > 20


def test_the_librarys_reader_is_there_again_after_an_error() -> None:
    with pytest.raises(FileNotFoundError), quick_headers():
        gguf.GGUFReader("nowhere.gguf")
    assert gguf.GGUFReader is GGUFReader
