"""Files of many kinds, damaged field by field: each is read or refused by an error of ours, in little memory.

Run as thorough tests for a few thousand files; ``make test-all`` tries some of each kind.
"""

from __future__ import annotations

import copy
import io
import json
import os
import random
import shutil
import tracemalloc
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import torch
import xarray as xr
from safetensors.torch import load_file, save_file
from support import quantised, waves, zoo
from support.damage import (
    Damage,
    damaged_archive,
    damaged_bytes,
    damaged_gguf,
    damaged_lines,
    damaged_results,
    damaged_safetensors,
    damaged_text,
    damaged_yaml,
)
from support.gguf_files import write_llama
from support.letter_tokenizer import letter_tokenizer
from support.stored import write_states

import bathyscope
from bathyscope.analysis.between.map_results import encode_maps
from bathyscope.analysis.between.maps import maps
from bathyscope.core.recipes import code_of, read_recipe
from bathyscope.errors import BathyscopeError, StoreError
from bathyscope.model.adapter import find_adapter
from bathyscope.model.files import require_whole
from bathyscope.model.gguf import open_gguf
from bathyscope.model.packed.folder import open_packed
from bathyscope.model.states.folder import open_folder
from bathyscope.pages.papers.json_record import score
from bathyscope.prompts.encode import Encoder
from bathyscope.prompts.harness.task_code import require_no_task_code
from bathyscope.prompts.prompt import Prompt, PromptSet
from bathyscope.prompts.prompt_rows import read_prompts
from bathyscope.prompts.tokenize import tokenize
from bathyscope.prompts.tokenizer import load_tokenizer
from bathyscope.runs.manifest import Manifest
from bathyscope.runs.shards import decode, encode_results
from bathyscope.surgery.checkpoint.json_record import export_record
from bathyscope.surgery.scheduled.speed import Speeds
from bathyscope.surveying.training.folder import read_about

FEW, MANY = 20, 220
EVALUATION = Path(__file__).parent / "surgery" / "benchmarks" / "fixtures" / "evaluation-of-schema-1"
ROOM = 1 << 24
"""Bytes that reading any of these small files may take; honest ones take less than a megabyte."""


@dataclass(frozen=True)
class Kind:
    """A kind of file.

    Args:
        make: writes an honest one into a folder, and returns its name there.
        read: opens the folder (or the file) as the program does, and looks at what it read.
        damage: makes it another file.
    """

    make: Callable[[Path], str]
    read: Callable[[Path, str], object]
    damage: Damage


def _run(folder: Path) -> None:
    bathyscope.survey(waves.loaded("llama"), [[11, 12, 13], [9, 8, 7, 6]], ["lens", "drop"], folder, progress=False)


def _open_run(folder: Path, name: str) -> object:
    run = bathyscope.open(folder)
    return repr(run), run.caption(), run.prompts.names, [run[measure].sizes for measure in run.measures]


def _open_rehashed(folder: Path, name: str) -> object:
    """Open a run whose manifest was made to fit the damaged file."""
    import hashlib

    manifest = json.loads((folder / "manifest.json").read_text())
    record = manifest["record"]
    for entry in (*record["shards"], *record["files"].values(), *([record["derived"]] if record["derived"] else [])):
        entry["sha256"] = hashlib.sha256((folder / entry["file"]).read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return _open_run(folder, name)


def _make_run(name: str) -> Callable[[Path], str]:
    def make(folder: Path) -> str:
        _run(folder)
        return name

    return make


def _plan(folder: Path) -> str:
    prompts = [zoo.prompts(zoo.build("llama"), (8, 8, 8), seed) for seed in (1, 2)]
    bathyscope.prune(waves.loaded("llama"), *prompts, drop=1, random=2, resamples=50, out=folder, progress=False)
    return "prune.json"


def _open_plan(folder: Path, name: str) -> object:
    plan = bathyscope.open_plan(folder)
    return repr(plan), plan.text


def _plan_result(folder: Path) -> str:
    _plan(folder)
    return "plan.nc"


def _open_rehashed_plan(folder: Path, name: str) -> object:
    """Open a plan whose manifest was made to fit the damaged file."""
    import hashlib

    manifest = json.loads((folder / "prune.json").read_text())
    manifest["files"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (folder / "prune.json").unlink()
    (folder / "prune.json").write_text(json.dumps(manifest))
    plan = bathyscope.open(folder)
    return repr(plan), plan.text, plan.record(), plan.source("test"), plan.place


def _evaluation(folder: Path) -> str:
    shutil.copytree(EVALUATION, folder)
    return "results/standard/arc_easy.json"


def _open_evaluation(folder: Path, name: str) -> object:
    evaluation = bathyscope.open(folder)
    return repr(evaluation), evaluation.record()


def _lens(folder: Path) -> str:
    folder.mkdir()
    prompts = zoo.prompts(zoo.build("llama"), (20, 20, 20, 20), 3)
    bathyscope.fit_lens(waves.loaded("llama"), prompts, progress=False).save(folder / "lens.safetensors")
    return "lens.safetensors"


def _published(folder: Path) -> str:
    folder.mkdir()
    torch.save({"J": {0: torch.eye(8), 1: torch.eye(8)}, "n_prompts": 4, "d_model": 8}, folder / "lens.pt")
    return "lens.pt"


def _open_lens(folder: Path, name: str) -> object:
    lens = bathyscope.open_lens(folder / name)
    return repr(lens), lens.text, lens.prompts, lens.width


def _repair(folder: Path) -> str:
    folder.mkdir()
    prompts = {"name": "p", "hash": "h", "prompts": 4, "tokens": 40}
    costs = {"cost": 0.1, "cost_low": 0.0, "cost_high": 0.2, "gain": 0.1, "gain_low": 0.05, "gain_high": 0.2}
    rungs = [{"name": name, "calibration_cost": 0.1, "recovered": 0.5, **costs} for name in ("none", "linear")]
    record = {
        "rungs": rungs,
        "model": {"name": "m", "n_blocks": 4},
        "settings": {"units": "prompts", "chosen": "linear", "level": 0.95},
        "schedule": "drop:1",
        "data": {"calibration": prompts, "test": prompts},
    }
    (folder / "repair.json").write_text(json.dumps(record))
    return "repair.json"


def _open_repair(folder: Path, name: str) -> object:
    repaired = bathyscope.open_repaired(folder)
    text = json.dumps(repaired.record(), ensure_ascii=False).encode()
    return repr(repaired), repaired.evidence, repaired.to_dataframe(), text


def _maps(folder: Path) -> str:
    folder.mkdir()
    found = maps(
        waves.loaded("llama"), waves.loaded("llama"), zoo.prompts(zoo.build("llama"), (30,) * 12), progress=False
    )
    (folder / "maps.nc").write_bytes(encode_maps(found.data))
    return "maps.nc"


def _open_maps(folder: Path, name: str) -> object:
    """Open maps that say nothing of what they held, as a file does whose author fits its hash."""
    with h5py.File(folder / name, "r+") as file:
        for mark in [mark for mark in file.attrs if "sha256" in str(mark) or str(mark).startswith("kept")]:
            del file.attrs[mark]
    result = bathyscope.open(folder / name)
    return repr(result), result.record(), result.to_dataframe()


def _export(folder: Path) -> str:
    bathyscope.export(waves.loaded("llama"), "drop:1", folder)
    return "bathyscope.json"


def _record(folder: Path) -> str:
    folder.mkdir()
    number = {"model": "m", "source": "m", "work": "math", "quantity": "depth", "value": 1.0, "ci_low": 0, "ci_high": 2}
    (folder / "record.json").write_text(json.dumps({"record": 1, "target": "hu2025", "numbers": [number]}))
    return "record.json"


def _course(folder: Path) -> str:
    folder.mkdir()
    (folder / "course.json").write_text(json.dumps({"model": {"type": "llama", "blocks": 4}, "measures": {"lens": {}}}))
    return "course.json"


def _recipe(folder: Path) -> str:
    folder.mkdir()
    (folder / "recipe.yaml").write_text(json.dumps({"model": "m", "prompts": ["a:1"], "lens": {"k": 3}}))
    return "recipe.yaml"


def _gguf(folder: Path) -> str:
    folder.mkdir()
    write_llama(folder / "tiny.gguf")
    return "tiny.gguf"


def _checkpoint(name: str) -> Callable[[Path], str]:
    def make(folder: Path) -> str:
        zoo.build("llama").save_pretrained(folder, max_shard_size="20kB")
        return name

    return make


def _look_at_checkpoint(folder: Path, name: str) -> object:
    require_whole(folder, {})
    return bathyscope.estimate(str(folder), [[1, 2, 3]]).flops


def _states(name: str) -> Callable[[Path], str]:
    def make(folder: Path) -> str:
        write_states(folder, zoo.build("llama"), [[5, 9, 7, 11], [3, 8, 6, 4]], layout="packed", served="top1_ids")
        return next(path.name for path in sorted(folder.iterdir()) if path.suffix == name)

    return make


def _open_states(folder: Path, name: str) -> object:
    states = open_folder(folder)
    read = [(states.states_of(prompt).sum(), states.told_of(prompt, "top1_ids")) for prompt in states.prompts]
    return read, states.with_boundaries(None, 5).hashed(lambda done: None).identity()


def _quantised(kind: str, name: str) -> Callable[[Path], str]:
    def make(folder: Path) -> str:
        packed = quantised.write(quantised.KINDS[kind], folder.parent / "quantised").packed
        shutil.copytree(packed, folder)
        shutil.rmtree(folder.parent / "quantised")
        return name

    return make


def _unpack(folder: Path, name: str) -> object:
    """Unpack every weight of a quantised folder, as the library asks for them."""
    packed = open_packed(str(folder), json.loads((folder / "config.json").read_text()), lambda: folder)
    if packed is None:
        return None
    outline = torch.nn.Module()
    return packed.description, [weight[...].shape for weight in packed.tensors(outline).values()]


def _unpack_declared(folder: Path, name: str) -> object:
    """Unpack by another configuration; one that is no JSON object is refused before it comes here."""
    try:
        declared = json.loads((folder / name).read_text())
    except (ValueError, RecursionError):
        return None
    return _unpack(folder, name) if isinstance(declared, dict) else None


_TURNS = [{"role": "user", "content": "a b"}, {"role": "assistant", "content": "c"}]


def _chats(folder: Path) -> str:
    folder.mkdir()
    rows = [{"messages": _TURNS, "id": "x", "level": 1}, {"messages": _TURNS, "level": 2}]
    (folder / "chats.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return "chats.jsonl"


def _chat_table(folder: Path) -> str:
    folder.mkdir()
    table = pyarrow.table({"messages": pyarrow.array([_TURNS] * 4), "level": [1, 2, 3, 4]})
    pyarrow.parquet.write_table(table, folder / "chats.parquet")
    return "chats.parquet"


def _read_chats(folder: Path, name: str) -> object:
    return [(prompt.messages, prompt.labels) for prompt in read_prompts(str(folder / name))]


def _open_marked(folder: Path, name: str) -> object:
    """Open a run whose files say that they belong to the damaged manifest, as its author can make them."""
    try:
        manifest = Manifest.from_tree(json.loads((folder / name).read_text()), name)
    except (ValueError, RecursionError, LookupError, TypeError):
        return _open_run(folder, name)
    for index, entry in ((0, manifest.record.shards.get(0)), (None, manifest.record.derived)):
        if entry is None or not (folder / entry.file).is_file():
            continue
        content = io.BytesIO((folder / entry.file).read_bytes())
        with suppress(OSError), h5py.File(content, "r+") as file:
            file.attrs.update(manifest.identity.marks(index))
        (folder / entry.file).unlink()
        (folder / entry.file).write_bytes(content.getvalue())
    run = _open_rehashed(folder, name)
    opened = bathyscope.open(folder)
    return run, opened.verdict.text, opened.stopped, opened.cycle, opened.stored, opened.record()


def _sharded(name: str) -> Callable[[Path], str]:
    """A packed checkpoint whose weights are in several files, and one of them."""

    def make(folder: Path) -> str:
        _quantised("gptq-4", "model.safetensors")(folder)
        stored = load_file(folder / "model.safetensors")
        (folder / "model.safetensors").unlink()
        halves = [sorted(stored)[::2], sorted(stored)[1::2]]
        files = {f"model-0000{number}-of-00002.safetensors": names for number, names in enumerate(halves, 1)}
        for file, names in files.items():
            save_file({tensor: stored[tensor] for tensor in names}, folder / file)
        places = {tensor: file for file, names in files.items() for tensor in names}
        (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
        return name

    return make


def _adapter(name: str) -> Callable[[Path], str]:
    def make(folder: Path) -> str:
        peft = pytest.importorskip("peft")
        config = peft.LoraConfig(r=2, target_modules=["q_proj", "down_proj"], task_type="CAUSAL_LM")
        adapted = peft.get_peft_model(copy.deepcopy(zoo.build("llama")), config)
        adapted.save_pretrained(folder)
        settings = json.loads((folder / "adapter_config.json").read_text())
        settings |= {
            "base_model_name_or_path": "the/base",
            "rank_pattern": {"q_proj": 2},
            "layers_to_transform": [0, 1],
        }
        (folder / "adapter_config.json").write_text(json.dumps(settings))
        return name

    return make


def _read_adapter(folder: Path, name: str) -> object:
    """Put an adapter into a fresh model, as ``load`` does."""
    adapter = find_adapter(str(folder), base="the/base")
    assert adapter is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return type(adapter.put_into(copy.deepcopy(zoo.build("llama"))))


def _tokenizer(folder: Path) -> str:
    folder.mkdir()
    letter_tokenizer(300).save_pretrained(folder)
    return "tokenizer.json"


def _read_tokenizer(folder: Path, name: str) -> object:
    tokenizer = load_tokenizer(str(folder))
    return tokenizer and Encoder(tokenizer).encode("old inn")


_TEMPLATE = "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}{% if enable %}on{% endif %}"


def _template(folder: Path) -> str:
    folder.mkdir()
    letter_tokenizer(300).save_pretrained(folder)
    (folder / "chat_template.jinja").write_text(_TEMPLATE)
    return "chat_template.jinja"


def _apply_template(folder: Path, name: str) -> object:
    tokenizer = load_tokenizer(str(folder))
    prompts = PromptSet((Prompt(messages=_TURNS),), "chats")
    return tokenize(prompts, tokenizer, max_tokens=None, chat=True)


def _whole_recipe(folder: Path) -> str:
    folder.mkdir()
    lines = [
        "model: m",
        "prompts: [a:1, b:2]",
        "measures: lens,skip",
        "seed: 3",
        "lens:",
        "  k: 3",
        "skip: {parts: block}",
    ]
    (folder / "recipe.yaml").write_text("\n".join(lines))
    return "recipe.yaml"


def _grid(folder: Path) -> str:
    folder.mkdir()
    lines = [
        "models: [./m, {model: ./n, dtype: float32}]",
        "prompts: ['sums:2']",
        "options:",
        "  - {name: x, seed: 3}",
        "seed: 1",
    ]
    (folder / "grid.yaml").write_text("\n".join(lines))
    return "grid.yaml"


def _read_grid(folder: Path, name: str) -> object:
    """Read a grid whose models exist nowhere: what is wrong with the file is said before any is loaded."""
    return bathyscope.grid(folder / name, folder / "out", progress=False).to_dataframe()


def _task(folder: Path) -> str:
    folder.mkdir()
    lines = [
        "task: t",
        "dataset_path: json",
        "output_type: multiple_choice",
        "doc_to_text: '{{q}}'",
        "doc_to_target: a",
    ]
    lines += [
        "metric_list:",
        "  - metric: acc",
        "    aggregation: mean",
        "metadata: {version: 1}",
        "include: other.yaml",
    ]
    (folder / "other.yaml").write_text("num_fewshot: 0\n")
    (folder / "task.yaml").write_text("\n".join(lines))
    return "task.yaml"


def _whole_course(name: str) -> Callable[[Path], str]:
    def make(folder: Path) -> str:
        folder.mkdir()
        for step in (1, 2):
            _run(folder / f"step-0000000{step}")
        about = {
            "model": {"type": "llama", "blocks": 6},
            "measures": {"lens": {}, "drop": {}},
            "prompts": {"number": 2},
        }
        (folder / "course.json").write_text(json.dumps(about))
        return name

    return make


def _open_course(folder: Path, name: str) -> object:
    course = bathyscope.open(folder)
    return repr(course), course.text, course.record()


KINDS = {
    "packed shard": Kind(_sharded("model-00002-of-00002.safetensors"), _unpack, damaged_safetensors),
    "packed index": Kind(_sharded("model.safetensors.index.json"), _unpack, damaged_text),
    "lens of torch": Kind(_published, _open_lens, damaged_archive),
    "gguf's values": Kind(_gguf, lambda folder, name: open_gguf(folder / name), damaged_gguf),
    "adapter's settings": Kind(_adapter("adapter_config.json"), _read_adapter, damaged_text),
    "adapter's weights": Kind(_adapter("adapter_model.safetensors"), _read_adapter, damaged_safetensors),
    "chat template": Kind(_template, _apply_template, damaged_bytes),
    "tokenizer": Kind(_tokenizer, _read_tokenizer, damaged_text),
    "recipe's lines": Kind(_whole_recipe, lambda folder, name: code_of(read_recipe(folder / name)), damaged_yaml),
    "grid": Kind(_grid, _read_grid, damaged_yaml),
    "task": Kind(_task, lambda folder, name: require_no_task_code([str(folder / name)], False), damaged_yaml),
    "steps of a course": Kind(_whole_course("course.json"), _open_course, damaged_text),
    "states": Kind(_states(".safetensors"), _open_states, damaged_safetensors),
    "states' record": Kind(_states(".json"), _open_states, damaged_text),
    "gptq": Kind(_quantised("gptq-sorted", "model.safetensors"), _unpack, damaged_safetensors),
    "compressed": Kind(_quantised("int4-sorted", "model.safetensors"), _unpack, damaged_safetensors),
    "bitsandbytes": Kind(_quantised("nf4-double", "model.safetensors"), _unpack, damaged_safetensors),
    "fp8": Kind(_quantised("fp8", "model.safetensors"), _unpack, damaged_safetensors),
    "gptq's configuration": Kind(_quantised("gptq-4", "config.json"), _unpack_declared, damaged_text),
    "compressed configuration": Kind(_quantised("int4-zeros", "config.json"), _unpack_declared, damaged_text),
    "chats": Kind(_chats, _read_chats, damaged_lines),
    "chats in a table": Kind(_chat_table, _read_chats, damaged_bytes),
    "manifest with its marks": Kind(_make_run("manifest.json"), _open_marked, damaged_text),
    "manifest": Kind(_make_run("manifest.json"), _open_run, damaged_text),
    "shard": Kind(_make_run("shard-00000.nc"), _open_rehashed, damaged_bytes),
    "prompts": Kind(_make_run("prompts.jsonl"), _open_rehashed, damaged_lines),
    "plan": Kind(_plan, _open_plan, damaged_text),
    "plan's results": Kind(_plan_result, _open_rehashed_plan, damaged_results),
    "run's results": Kind(_make_run("shard-00000.nc"), _open_rehashed, damaged_results),
    "maps": Kind(_maps, _open_maps, damaged_results),
    "evaluation": Kind(_evaluation, _open_evaluation, damaged_text),
    "lens": Kind(_lens, _open_lens, damaged_safetensors),
    "published lens": Kind(_published, _open_lens, damaged_bytes),
    "repair": Kind(_repair, _open_repair, damaged_text),
    "export": Kind(_export, lambda folder, name: export_record(folder), damaged_text),
    "record": Kind(_record, lambda folder, name: score(folder / name), damaged_text),
    "course": Kind(_course, lambda folder, name: read_about(folder), damaged_text),
    "recipe": Kind(_recipe, lambda folder, name: read_recipe(folder / name), damaged_text),
    "gguf": Kind(_gguf, lambda folder, name: open_gguf(folder / name), damaged_bytes),
    "index": Kind(_checkpoint("model.safetensors.index.json"), _look_at_checkpoint, damaged_text),
    "configuration": Kind(_checkpoint("config.json"), _look_at_checkpoint, damaged_text),
}


@pytest.fixture(scope="module", params=sorted(KINDS))
def honest(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Kind, Path, str]:
    kind = KINDS[request.param]
    folder = tmp_path_factory.mktemp("honest") / "files"
    return kind, folder, kind.make(folder)


def _try(honest: tuple[Kind, Path, str], seeds: range) -> None:
    kind, folder, name = honest
    kind.read(folder, name)
    for seed in seeds:
        copy = folder.parent / "copy"
        shutil.copytree(folder, copy, copy_function=os.link)
        content = kind.damage((folder / name).read_bytes(), random.Random(seed))
        # a file of its own: the honest one is the same file as the linked one
        (copy / name).unlink()
        (copy / name).write_bytes(content)
        if (copy / "manifest.json").exists() and name != "manifest.json":
            text = (copy / "manifest.json").read_bytes()
            (copy / "manifest.json").unlink()
            (copy / "manifest.json").write_bytes(text)
        tracemalloc.start()
        try:
            kind.read(copy, name)
        except BathyscopeError as error:
            assert "\x1b" not in str(error), f"{seed}: acts on a terminal"  # noqa: PT017
        except Exception as error:
            raise AssertionError(f"{name}, seed {seed}: {type(error).__name__}: {error}") from error
        finally:
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            shutil.rmtree(copy)
        assert peak < ROOM, f"{name}, seed {seed}: {peak / 2**20:.0f} MiB"


@pytest.mark.filterwarnings("ignore")
def test_a_damaged_file_is_read_or_refused(honest: tuple[Kind, Path, str]) -> None:
    _try(honest, range(FEW))


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
def test_many_damaged_files_are_read_or_refused(honest: tuple[Kind, Path, str]) -> None:
    _try(honest, range(FEW, FEW + MANY))


@pytest.mark.parametrize("value", [[1], {"a": 1}, "x", True, "\ud800", []])
@pytest.mark.parametrize("name", ["name", "cost", "gain", "gain_low", "recovered", "calibration_cost", "why_not"])
def test_entries_of_a_repair_are_of_their_kind(name: str, value: object, tmp_path: Path) -> None:
    folder = tmp_path / "repair"
    _repair(folder)
    record = json.loads((folder / "repair.json").read_text())
    record["rungs"][1][name] = value
    (folder / "repair.json").write_text(json.dumps(record))
    if value == "x" and name in ("why_not", "name"):
        assert getattr(bathyscope.open_repaired(folder).rungs[1], name) == "x"
        return
    with pytest.raises(StoreError, match=r"repair\.json cannot be read"):
        _open_repair(folder, "repair.json")


@pytest.mark.parametrize("value", [[1.0], "1", None, True])
def test_speeds_are_numbers(value: object) -> None:
    record = {"before": 1.0, "after": 2.0, "ratio_min": 1.0, "ratio_max": 3.0, "tokens": 8, "repeats": 3}
    assert Speeds.from_record({**record, "ratio": 9.0}).ratio == 2.0
    for name in record:
        with pytest.raises(TypeError, match=f"its {name} is no number"):
            Speeds.from_record({**record, name: value})


def test_speeds_of_an_earlier_version_are_read() -> None:
    record = {"before": 1.0, "after": 2.0, "ratio_low": 1.0, "ratio_high": 3.0, "tokens": 8, "repeats": 3}
    speeds = Speeds.from_record({**record, "ratio": 2.0})
    assert (speeds.ratio_min, speeds.ratio_max) == (1.0, 3.0)
    assert Speeds.from_record(speeds.record()) == speeds


@pytest.mark.parametrize("value", [[4], "4", 4.0, True])
def test_a_number_of_blocks_is_a_whole_number(value: object, tmp_path: Path) -> None:
    _run(tmp_path / "run")
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    manifest["identity"]["n_blocks"] = value
    (tmp_path / "run" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(StoreError, match=r"n_blocks is .*, not a whole number"):
        bathyscope.open(tmp_path / "run")


@pytest.mark.parametrize("name", ["scale_factor", "add_offset"])
def test_results_in_another_scale_are_refused_when_they_are_opened(name: str) -> None:
    content = io.BytesIO(encode_results({"a": xr.Dataset({"x": ("n", np.arange(3))})}))
    with h5py.File(content, "r+") as file:
        file["a/x"].attrs[name] = "text"
    with pytest.raises(StoreError, match="x is stored in another scale"):
        decode(content.getvalue())
