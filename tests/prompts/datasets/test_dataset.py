from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import datasets
import pyarrow
import pyarrow.parquet
import pytest

from bathyscope.errors import PromptError
from bathyscope.prompts.datasets import REGISTRY

GSM8K = REGISTRY["gsm8k"]
HELLASWAG = REGISTRY["hellaswag"]
ROWS = [{"question": f"{n} + 1?", "answer": f"Add one.\n#### {n + 1}"} for n in range(5)]


class Hub:
    """Stands in for ``datasets.load_dataset`` and remembers what it was asked for."""

    def __init__(self, rows: list[dict[str, Any]] | None) -> None:
        self.rows = rows
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self.read = 0

    def __call__(self, *arguments: Any, **options: Any) -> Iterator[dict[str, Any]]:
        self.calls.append((arguments, options))
        if self.rows is None:
            raise ConnectionError("Couldn't reach 'openai/gsm8k' on the Hub.\nmore")
        return self._rows()

    def _rows(self) -> Iterator[dict[str, Any]]:
        for row in self.rows or []:
            self.read += 1
            yield row


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Hub]:
    def install(rows: list[dict[str, Any]] | None) -> Hub:
        stand_in = Hub(rows)
        monkeypatch.setattr(datasets, "load_dataset", stand_in)
        return stand_in

    return install


def test_registry_is_the_table_in_alphabetical_order() -> None:
    assert list(REGISTRY) == ["aime2024", "gsm8k", "hellaswag", "lambada", "math", "mquake", "two_hop"]
    assert all(data_set.name == name for name, data_set in REGISTRY.items())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gsm8k", ("openai/gsm8k", "main", "test")),
        ("hellaswag", ("Rowan/hellaswag", None, "validation")),
        ("lambada", ("EleutherAI/lambada_openai", None, "test")),
        ("mquake", ("henryzhongsc/MQuAKE-Remastered", None, "CF3k")),
        ("math", ("EleutherAI/hendrycks_math", "intermediate_algebra", "test")),
        ("aime2024", ("Maxwell-Jia/AIME_2024", None, "train")),
        ("two_hop", (None, None, None)),
    ],
)
def test_papers_copy_on_the_hub(name: str, expected: tuple[str | None, str | None, str | None]) -> None:
    data_set = REGISTRY[name]
    assert (data_set.hub, data_set.config, data_set.split) == expected


def test_hub_is_asked_for_the_papers_split_and_read_no_further_than_needed(hub: Callable[..., Hub]) -> None:
    stand_in = hub(ROWS)
    prompts = GSM8K.prompts(count=2)
    assert [prompt.answer for prompt in prompts] == ["1", "2"]
    assert stand_in.calls == [(("openai/gsm8k", "main"), {"split": "test"})]
    assert stand_in.read == 2
    assert len(GSM8K.prompts(split="train")) == 5
    assert stand_in.calls[1] == (("openai/gsm8k", "main"), {"split": "train"})


def test_without_configuration(hub: Callable[..., Hub]) -> None:
    stand_in = hub([{"ctx": "a", "endings": ["b"], "label": "0"}])
    HELLASWAG.prompts()
    assert stand_in.calls == [(("Rowan/hellaswag",), {"split": "validation"})]


def test_no_network_names_the_local_way(hub: Callable[..., Hub]) -> None:
    hub(None)
    message = (
        r"gsm8k: openai/gsm8k \(split 'test'\) could not be loaded from the hub: Couldn't reach .* on the "
        r"Hub\. Without a network give a local file with the columns question, answer: gsm8k:10@FILE\.jsonl"
    )
    with pytest.raises(PromptError, match=message) as raised:
        GSM8K.prompts(count=2)
    assert isinstance(raised.value.__cause__, ConnectionError)


def test_local_file_of_every_kind_gives_the_same(tmp_path: Path) -> None:
    rows = [{"ctx": "A man, on a roof. he", "endings": ['says "hi"', ", then"], "label": label} for label in (0, 1)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    table = ["ctx,endings,label"]
    for row in rows:
        endings = json.dumps(row["endings"]).replace('"', '""')
        table.append(f'"{row["ctx"]}","{endings}",{row["label"]}')
    (tmp_path / "a.csv").write_text("\n".join(table))
    for name in ("a.jsonl", "a.parquet", "a.csv"):
        texts = [prompt.text for prompt in HELLASWAG.prompts(path=str(tmp_path / name))]
        assert texts == ['A man, on a roof. he says "hi"', "A man, on a roof. he, then"], name


def test_count(write_jsonl: Callable[..., str]) -> None:
    path = write_jsonl(*ROWS)
    assert len(GSM8K.prompts(path=path)) == 5
    assert GSM8K.prompts(path=path, count=3) == GSM8K.prompts(path=path)[:3]
    with pytest.raises(PromptError, match=r"gsm8k: 6 rows asked for, but .*rows\.jsonl has 5"):
        GSM8K.prompts(path=path, count=6)
    with pytest.raises(PromptError, match="there are no rows"):
        GSM8K.prompts(path=write_jsonl())


@pytest.mark.parametrize("name", ["aime2024", "gsm8k", "hellaswag", "lambada", "math", "mquake", "two_hop"])
def test_empty_files_and_foreign_columns(name: str, write_jsonl: Callable[..., str], with_bos: Any) -> None:
    data_set = REGISTRY[name]
    with pytest.raises(PromptError, match=rf"{name}: there are no rows.* .*rows\.jsonl"):
        data_set.prompts(path=write_jsonl(), max_tokens=9, tokenizer=with_bos)
    needed = ", ".join(data_set.columns)
    with pytest.raises(PromptError, match=rf"{name}: .* lacks {needed}\. Columns needed: {needed}; found: other"):
        data_set.prompts(path=write_jsonl({"other": 1}), max_tokens=9, tokenizer=with_bos)


def test_missing_columns(write_jsonl: Callable[..., str]) -> None:
    path = write_jsonl({"question": "a", "solution": "b"})
    with pytest.raises(
        PromptError,
        match=r"rows\.jsonl lacks answer\. Columns needed: question, answer; found: question, solution",
    ):
        GSM8K.prompts(path=path)
    with pytest.raises(PromptError, match=r"row 6 of .*rows\.jsonl lacks answer"):
        GSM8K.prompts(path=write_jsonl(*ROWS, {"question": "a"}))


def test_a_bad_row_is_named(write_jsonl: Callable[..., str]) -> None:
    path = write_jsonl(*ROWS, {"question": "a", "answer": "no mark"})
    with pytest.raises(PromptError, match=r"gsm8k, row 6 of .*: column 'answer' must end with '#### ANSWER'"):
        GSM8K.prompts(path=path)
    with pytest.raises(PromptError, match=r"row 1 of .*: column 'question' must hold text, not int"):
        GSM8K.prompts(path=write_jsonl({"question": 1, "answer": "x #### 1"}))
