"""``bathyscope probe``: what is printed is what the Python calls give, and mistakes name what is allowed."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from support import zoo
from support.word_tokenizer import word_tokenizer

from bathyscope.analysis.probes import ing_probe, wic_probe
from bathyscope.cli import main
from bathyscope.model import load

pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama with a tokenizer in which every third word ends in -ing."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    zoo.build("llama").save_pretrained(folder)
    word_tokenizer([f"w{n}" + "ing" * (n % 3 == 0) for n in range(98)]).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Rows to fit and rows to judge by: pairs of words, and no pair is in both."""
    pairs = np.random.default_rng(0).permutation(29 * 29)[:80]
    made = []
    for number, pair in enumerate(pairs.tolist()):
        one, other = (3 * word + 4 for word in divmod(pair, 29))
        first, second = f"a w{one}", f"w{other} a"
        made.append(
            {"word": f"w{one}", "sentence1": first, "sentence2": second, "label": number % 2}
            | {"start1": 2, "end1": len(first), "start2": 0, "end2": len(second) - 2}
        )
    folder = tmp_path_factory.mktemp("data")
    for name, part in {"fitted.jsonl": made[:40], "judged.jsonl": made[40:]}.items():
        (folder / name).write_text("\n".join(map(json.dumps, part)), encoding="utf-8")
    return folder / "fitted.jsonl", folder / "judged.jsonl"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    draw = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("data") / "corpus.txt"
    path.write_text(
        " ".join(f"w{n}" + "ing" * (n % 3 == 0) for n in draw.integers(0, 98, 3000).tolist()), encoding="utf-8"
    )
    return path


def test_wic_prints_every_boundary(model: Path, files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    fitted, judged = files
    arguments = ["probe", "wic", str(model), "--data", str(fitted), "--validation", str(judged), "--C", "0.1"]
    arguments += ["--features", "difference,concatenation", "--resamples", "20", "--quiet"]
    assert main([*arguments, "--format", "csv"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    found = list(csv.DictReader(io.StringIO(printed.out)))
    expected = wic_probe(
        model, fitted, judged, C=0.1, features=("difference", "concatenation"), resamples=20, progress=False
    )
    assert [(row["features"], int(row["boundary"])) for row in found] == [
        (name, boundary) for name in ("difference", "concatenation") for boundary in range(6)
    ]
    for column in ("accuracy", "ci_low", "ci_high", "train_accuracy", "C"):
        assert [float(row[column]) for row in found] == expected[column].values.ravel().tolist()


def test_wic_table_names_the_majority(
    model: Path, files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    fitted, judged = files
    arguments = ["--data", str(fitted), "--validation", str(judged), "--C", "0.1", "--train-rows", "30"]
    assert main(["probe", "wic", str(model), *arguments]) == 0
    out, err = capsys.readouterr()
    assert "Majority label: 0.500." in out
    assert f"Loading {model}." in err
    assert [line.split()[1] for line in out.splitlines() if line.strip().startswith("concatenation")] == list("012345")


def test_ing_prints_neurons_and_ensembles(model: Path, corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = {"window": 8, "contexts": 80, "neurons": 3, "resamples": 20}
    flags = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    assert main(["probe", "ing", str(model), "--data", str(corpus), *flags, "--format", "json", "--quiet"]) == 0
    found = json.loads(capsys.readouterr().out)
    expected = ing_probe(load(model), corpus, progress=False, **options)
    by_rank = expected.sel(kind="prediction")
    neurons = [row for row in found if row["probe"] == "neuron" and row["kind"] == "prediction"]
    for name in ("block", "neuron", "effect", "skew", "train_accuracy"):
        assert [row[name] for row in neurons] == by_rank[name].values.tolist()
    assert [type(row["block"]) for row in neurons] == [int] * 3
    assert {row["size"] for row in neurons} == {None}
    kinds = [(row["probe"], row["kind"]) for row in found]
    assert kinds[0] == ("the model's top-1", None)
    for kind in ("prediction", "suppression"):
        assert kinds.count(("neuron", kind)) == kinds.count(("ensemble", kind)) == 3
    assert found[0]["accuracy"] == float(expected.top1_accuracy)
    alone = [row["accuracy"] for row in found if row["probe"] == "neuron"]
    assert alone == expected.accuracy.values.ravel().tolist()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["probe"], 2, "Choose a probe: wic, ing"),
        (["probe", "wick", "MODEL"], 2, "Unknown probe 'wick'. Did you mean 'wic'? Allowed: wic, ing"),
        (["probe", "ing", "MODEL"], 2, "--data"),
        (["probe", "ing", "MODEL", "--data", "nowhere.txt"], 3, "nowhere.txt does not exist"),
        (
            ["probe", "wic", "MODEL", "--data", "ROWS", "--validation", "ROWS", "--features", "sum"],
            2,
            "'sum' is unknown",
        ),
        (["probe", "wic", "nowhere", "--data", "ROWS"], 4, "nowhere"),
    ],
)
def test_mistakes(
    arguments: list[str],
    code: int,
    said: str,
    model: Path,
    files: tuple[Path, Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    places = {"MODEL": str(model), "ROWS": str(files[0])}
    assert main([places.get(text, text) for text in arguments]) == code
    assert said in capsys.readouterr().err
