"""The page for users of other code: every row of its tables runs, on the bundled model."""

from __future__ import annotations

import itertools
import json
import random
import re
import shlex
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from support.harness_tasks import ROWS

import bathyscope
from bathyscope.cli import main
from bathyscope.model.bundled import model_path

pytestmark = pytest.mark.filterwarnings("ignore")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "port.md"
TEXTS = ["Once upon a time there was a little girl who liked to play.", "The dog ran to the park and saw a red ball."]
LOCAL = {
    "gsm8k:10": "gsm8k:2@gsm8k.jsonl",
    "gsm8k:20": "gsm8k:3@gsm8k.jsonl",
    "gsm8k:2 ": "gsm8k:2@gsm8k.jsonl ",
    "mquake?per_level=20": "mquake?per_level=2@mquake.jsonl",
    "hellaswag:10": "hellaswag:3@hellaswag.jsonl",
    "aime2024:5": "aime2024:2?max_tokens=400@aime.jsonl",
    "pile.txt:10": "pile.txt:3?window=48",
    "hf:NAME:4000?split=train&text=text": "rows.csv:3?text=text",
    "--tasks arc_easy": "--tasks arc_easy --data arc_easy=arc_easy.jsonl",
}
"""What stands on the page → the same of a file of this disk, and fewer prompts."""
NAME = "MODEL"


def rows() -> list[tuple[str, str]]:
    """Return both cells of every row, without the heads of tables."""
    cells = [
        tuple(part.strip() for part in re.split(r"(?<!\\)\|", line.strip("|\n ")))
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith("|") and not line.startswith("|---") and not line.endswith("| here |")
    ]
    assert all(len(pair) == 2 for pair in cells)
    return cells  # type: ignore[return-value]


def code_in(cell: str) -> list[str]:
    """Return what a cell has to be run: commands, and Python on a run or a model."""
    spans = re.findall(r"`([^`]+)`", cell)
    return [span for span in spans if re.match(r"(bathyscope[ .]|1 - |run\[|lad\[|with )", span)]


def is_none(cell: str) -> bool:
    return cell.startswith("none")


def local(command: str) -> str:
    for name, file in LOCAL.items():
        command = command.replace(name, file)
    return command


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A folder with the model, small files of data and the two runs of the page; and the names of its Python."""
    folder = tmp_path_factory.mktemp("port")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_data()
        for block in re.findall(r"^```bash\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S):
            for line in block.splitlines():
                run_command(line)
        model = bathyscope.load(NAME, dtype="float32")
        yield {
            "bathyscope": bathyscope,
            "np": np,
            "model": model,
            "texts": TEXTS,
            "ids": torch.tensor([[1, 40, 50, 60]]),
            "run": bathyscope.open("RUN"),
            "lad": bathyscope.open("LAD"),
        }
    plt.close("all")


def write_data() -> None:
    Path(NAME).symlink_to(model_path())
    for seed, name in enumerate(("pile.txt", "other.txt")):
        Path(name).write_text(story(random.Random(seed)), encoding="utf-8")
    numbers = range(2, 6)
    write_rows("gsm8k", [{"question": f"{n} + 2?", "answer": f"It is {n} + 2.\n#### {n + 2}"} for n in numbers])
    write_rows("aime", [{"Problem": f"Find {n} + 2.", "Solution": f"It is {n + 2}."} for n in numbers])
    triples = [["a", "b", "c"]]
    hops = [(n, hop) for hop in (2, 3, 4) for n in numbers]
    write_rows(
        "mquake",
        [{"questions": [f"Who is {n}?"], "answer": f"the {n}th", "orig_triples": triples * hop} for n, hop in hops],
    )
    write_rows("hellaswag", [{**row, "ctx": row["ctx"]} for row in ROWS["hellaswag"]])
    write_rows("arc_easy", ROWS["arc_easy"])
    write_rows(
        "pairs", [{"text": f"The girl saw the {who} and", "answer": " ran", "pair": 1} for who in ("dog", "cat")]
    )
    Path("rows.csv").write_text("text\n" + "\n".join(TEXTS * 2) + "\n", encoding="utf-8")
    draw = random.Random(0)
    lines = [
        f"m{n},f{n % 2},{10 + n},{draw.randrange(64, 512)},{draw.randrange(64, 2048)},{draw.random()}"
        for n in range(12)
    ]
    Path("scores.csv").write_text("name,family,layers,d_model,d_ff,score\n" + "\n".join(lines) + "\n", encoding="utf-8")


def story(draw: random.Random) -> str:
    """Return a text of a few thousand tokens."""
    who, verbs = ("girl", "boy", "dog", "cat", "old man"), ("saw", "found", "liked", "took", "wanted")
    what = ("red ball", "tree", "small house", "cake", "blue bird", "garden", "boat")
    return " ".join(
        f"The {draw.choice(who)} {draw.choice(verbs)} a {draw.choice(what)}, and the {draw.choice(who)} was happy."
        for _ in range(400)
    )


def write_rows(name: str, rows_of: Any) -> None:
    Path(f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows_of), encoding="utf-8")


def run_command(line: str) -> None:
    words = shlex.split(local(line))
    assert words[0] == "bathyscope"
    if words[1] == "survey":
        words += ["--quiet", "--dtype", "float32"]
    assert main(words[1:]) == 0, line
    if "--out" in words:
        out = Path(words[words.index("--out") + 1])
        assert any(out.iterdir()) if out.is_dir() else out.stat().st_size > 500, line


@pytest.mark.each  # no row stands for another
@pytest.mark.parametrize("row", rows(), ids=lambda row: re.sub(r"[^\w.]+", "-", row[0])[:60])
def test_every_row_runs(row: tuple[str, str], place: dict[str, Any]) -> None:
    theirs, here = row
    snippets = code_in(here)
    assert theirs
    # a row says that there is nothing, or shows something that can be run
    assert bool(snippets) != is_none(here), here
    if "evaluate" in here:
        pytest.importorskip("lm_eval", reason="the extra is not installed: pip install 'bathyscope[eval]'")
    for snippet in snippets:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if snippet.startswith("bathyscope "):
                run_command(snippet)
            elif snippet.startswith("with "):
                exec(snippet.replace(": ", ":\n    ", 1), place)
            else:
                value = eval(snippet, place)
                assert value is not None
                arrays = getattr(value, "data_vars", None)
                for array in [value] if arrays is None else arrays.values():
                    assert not hasattr(array, "dims") or bool(array.notnull().any())


def test_none_is_said_of_few_rows() -> None:
    assert sum(is_none(here) for _, here in rows()) < len(rows()) / 5
    assert len(rows()) > 70


def hidden_states(place: dict[str, Any]) -> list[torch.Tensor]:
    """Return boundaries [T, D] of the first prompt of the run, by transformers."""
    ids = torch.tensor([place["run"].prompts[0].ids])
    with torch.no_grad():
        return [state[0].double() for state in place["model"].hf(ids, output_hidden_states=True).hidden_states]


def test_block_influence_and_angular_distance_are_those_of_hidden_states(place: dict[str, Any]) -> None:
    states = hidden_states(place)[:-1]  # the last one is behind the final norm
    residual = place["run"]["residual"].isel(prompt=0)
    cosines = [
        float(torch.nn.functional.cosine_similarity(before, after, dim=-1).mean())
        for before, after in itertools.pairwise(states)
    ]
    np.testing.assert_allclose(1 - residual.cos_neighbour.values[:-1], 1 - np.array(cosines), atol=1e-5)
    # PruneMe: arccos of the cosine at the last token, over π
    for first in range(len(states) - 4):
        cosine = torch.nn.functional.cosine_similarity(states[first][-1], states[first + 4][-1], dim=-1)
        expected = float(torch.arccos(cosine) / torch.pi)
        assert float(residual.angular.sel(tokens="last", distance=4, boundary=first)) == pytest.approx(
            expected, abs=1e-5
        )


def test_the_lens_is_the_readout_of_the_accumulated_stream(place: dict[str, Any]) -> None:
    hf, states = place["model"].hf, hidden_states(place)
    final = hf.lm_head(states[-1].float()).double().log_softmax(-1)
    lens = place["run"]["lens"].isel(prompt=0)
    for boundary in (0, 5, 11):
        with torch.no_grad():
            read = hf.lm_head(hf.model.norm(states[boundary].float())).double().log_softmax(-1)
        forward = (final.exp() * (final - read)).sum(-1)
        agreement = (final.argmax(-1) == read.argmax(-1)).double()
        assert float(lens.kl_final_lens[boundary]) == pytest.approx(float(forward.mean()), rel=1e-3)
        assert float(lens.top1_agreement[boundary]) == pytest.approx(float(agreement.mean()), abs=1e-6)
