"""With keep_text=False no text is stored: not of prompts, references and labels, in no file and on no page."""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from support import zoo
from support.word_tokenizer import word_tokenizer

import bathyscope
from bathyscope.errors import StoreError
from bathyscope.model import Model
from bathyscope.prompts.prompt import Prompt
from bathyscope.runs.difference import difference
from bathyscope.runs.manifest import load_manifest
from bathyscope.runs.run import Run

MARKER = "zyxwvut"
WORDS = [MARKER, *(f"word{number}" for number in range(60))]
MEASURES = ["lens", "tokens", "erasure", "depth_score", "integrated_gradients", "jacobian_lens", "effective_depth"]


def text(first: int, count: int = 14) -> str:
    """Different words, the marker after every third."""
    words = [f"word{(first * 7 + number) % 60}" for number in range(count)]
    return " ".join(word if number % 3 else f"{word} {MARKER}" for number, word in enumerate(words))


def prompts() -> list[Prompt]:
    return [
        Prompt(text=text(number), answer=f" {MARKER} word3", labels={"level": number, "question": f"{MARKER} word3"})
        for number in range(3)
    ]


@pytest.fixture(scope="module")
def model() -> Model:
    return bathyscope.load(zoo.build("llama"), tokenizer=word_tokenizer(WORDS))


def survey(model: Model, out: Path, keep_text: bool) -> Run:
    references = [Prompt(text=text(number + 20, 20), labels={"story": text(number)}) for number in range(4)]
    return bathyscope.survey(
        model,
        prompts(),
        MEASURES,
        out=out,
        keep_text=keep_text,
        progress=False,
        erasure={"reference": references},
        jacobian_lens={"prompts": [reference.text for reference in references], "skip_first": 0, "directions": 4},
    )


@pytest.fixture(scope="module")
def without(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Run:
    with pytest.warns(UserWarning, match="The labels 'question' hold texts and are left out, since no text is stored"):
        return survey(model, tmp_path_factory.mktemp("without") / "run", keep_text=False)


def contents(file: Path) -> Iterator[str]:
    """Everything in a file: its bytes, what is compressed in it, and the texts of its arrays."""
    content = file.read_bytes()
    yield content.decode("latin-1")
    for blob in re.findall(rb"[A-Za-z0-9+/]{64,}={0,2}", content):
        try:
            unpacked = zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(base64.b64decode(blob))
        except (zlib.error, binascii.Error):
            continue
        yield unpacked.decode("latin-1")
    if file.suffix == ".nc":
        for group in xr.open_datatree(file).subtree:
            yield str(group.attrs)
            for variable in group.variables.values():
                yield str(variable.attrs)
                if variable.dtype.kind in "OUS":
                    yield " ".join(map(str, np.ravel(variable.values)))


def held(run: Run, page: Path) -> list[str]:
    """Files that hold the marker."""
    bathyscope.report([run], page)
    assert run.path is not None
    files = [*(file for file in Path(run.path).rglob("*") if file.is_file()), page]
    return [file.name for file in files if any(MARKER in content for content in contents(file))]


def test_no_file_and_no_page_holds_a_text(without: Run, tmp_path: Path) -> None:
    assert held(without, tmp_path / "page.html") == []
    assert MARKER not in json.dumps(without.record(), default=str)
    assert set(without.prompts.labels) == {"level"}


def test_the_search_sees_texts_where_they_are_stored(model: Model, tmp_path: Path) -> None:
    files = held(survey(model, tmp_path / "run", keep_text=True), tmp_path / "page.html")
    assert {"manifest.json", "prompts.jsonl", "page.html"} < set(files)
    assert any(name.startswith("shard-") for name in files)


def test_references_are_known_by_their_hash(model: Model, without: Run, tmp_path: Path) -> None:
    measures = without.identity.measures
    assert measures["erasure"]["reference"] == "4 prompts whose texts are not stored"
    assert measures["jacobian_lens"]["prompts"] == "4 prompts whose texts are not stored"
    assert measures["erasure"]["reference_hash"] != measures["jacobian_lens"]["reference_hash"]
    assert without.path is not None
    with pytest.warns(UserWarning, match="'question' hold texts"):
        assert survey(model, Path(without.path), keep_text=False).identity == without.identity
    with pytest.raises(StoreError, match=r"measures.erasure.reference_hash: run has '"):
        bathyscope.survey(
            model,
            without.prompts,
            MEASURES,
            out=without.path,
            keep_text=False,
            erasure={"reference": [text(50), text(51)]},
            jacobian_lens={"prompts": [text(number + 20, 20) for number in range(4)], "skip_first": 0, "directions": 4},
        )


def test_a_run_of_an_earlier_version_that_stored_them_is_the_same(without: Run) -> None:
    assert without.path is not None
    stored = load_manifest(Path(without.path)).identity
    earlier = asdict(stored)
    earlier["measures"]["erasure"]["reference"] = [text(20), text(21)]
    assert difference(earlier, stored) == []
    assert difference(stored, earlier) == []
    earlier["measures"]["erasure"]["reference_hash"] = "another"
    assert difference(earlier, stored) != []


def test_the_name_of_a_source_is_no_text(model: Model, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps({"text": text(number)}) + "\n" for number in range(3)), encoding="utf-8")
    run = bathyscope.survey(
        model, [prompts()[0]], ["erasure"], keep_text=False, progress=False, erasure={"reference": str(file)}
    )
    assert run.identity.measures["erasure"]["reference"] == str(file)
