"""A survey by workers on a Ray cluster writes the files of a single process, whatever happens to them."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support import any_machine, waves, workers, zoo

import bathyscope
from bathyscope import ModelError, OptionError, Prompt, PromptError, StoreError
from bathyscope.model.identity import identity_of
from bathyscope.runs.folder import FolderLock
from bathyscope.surveying.distributed.driving import by_name

pytest.importorskip("ray")

MEASURES = ["lens", "skip", "effective_depth"]
WORKER_KILLS, DRIVER_KILLS = 20, 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model as a checkpoint, which workers load by its name."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    waves.loaded("llama").hf.save_pretrained(folder)
    return folder


@pytest.fixture(autouse=True)
def an_importable_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are processes of their own, which find the package where this one does."""
    monkeypatch.setenv("PYTHONPATH", any_machine.path(*filter(None, sys.path)))


def prompts() -> list[Prompt]:
    ids = zoo.prompts(zoo.build("llama"), (20, 13, 17, 26, 14, 15, 21, 12))
    return [Prompt(ids=own, answer_tokens=2, labels={"level": n // 2}) for n, own in enumerate(ids)]


def survey(folder: Path, out: Path, measures: Any = None, **options: Any) -> bathyscope.Run:
    asked = MEASURES if measures is None else measures
    return bathyscope.survey(folder, prompts(), asked, out, batch_tokens=30, progress=False, **options)


def hashes(run: Path) -> dict[str, str]:
    return {
        str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in run.rglob("*")
        if path.suffix in (".nc", ".jsonl")
    }


def test_files_are_those_of_a_single_process_also_when_a_worker_was_killed(folder: Path, tmp_path: Path) -> None:
    """One start of Ray for all: an own measure kills the first worker that computes the second shard."""
    mark = tmp_path / "killed"
    measures = ["lens", workers.Deadly({"mark": str(mark)})]
    with workers.shipped(), pytest.warns(UserWarning, match=r"A worker was lost \(The actor died .*another one takes"):
        found = survey(folder, tmp_path / "many", measures, engine="ray", workers=2)
    assert mark.exists()
    whole = survey(folder, tmp_path / "one", measures)
    assert hashes(tmp_path / "many") == hashes(tmp_path / "one")
    assert len(hashes(tmp_path / "many")) == 6 + 2
    assert found.identity == whole.identity
    assert found.verdict.text == whole.verdict.text


def test_a_second_driver_is_refused_before_anything_is_started(folder: Path, tmp_path: Path) -> None:
    tmp_path.joinpath("run").mkdir()
    lock = FolderLock(tmp_path / "run")
    try:
        with pytest.raises(StoreError, match="is being written by process"):
            survey(folder, tmp_path / "run", engine="ray", workers=2)
    finally:
        lock.release()


def test_what_is_misspelt_is_said_before_anything_is_started(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="Did you mean 'lens'"):
        survey(folder, tmp_path / "run", ["lense"], engine="ray", workers=2)
    with pytest.raises(OptionError, match=r"engine='rey' is unknown\. Did you mean 'ray'"):
        survey(folder, tmp_path / "run", engine="rey", workers=2)
    with pytest.raises(OptionError, match=r"are two ways to share a survey out; leave one of them out"):
        survey(folder, tmp_path / "run", engine="ray", part="1/2")
    with pytest.raises(OptionError, match=r"workers=2 is of an engine; give engine='ray' \(--engine ray\)"):
        survey(folder, tmp_path / "run", workers=2)


def test_a_model_in_memory_cannot_be_sent(tmp_path: Path) -> None:
    for model in (waves.loaded("llama"), waves.loaded("llama").hf):
        with pytest.raises(OptionError, match=r"this one is in memory alone; give its name or folder"):
            bathyscope.survey(model, prompts(), MEASURES, tmp_path / "run", engine="ray", workers=2)
        with pytest.raises(OptionError, match=r"loading= is for a model given by its name"):
            bathyscope.survey(model, prompts(), MEASURES, loading={"dtype": "float32"})


def test_a_loaded_model_is_loaded_again_in_the_same_way(folder: Path) -> None:
    model = bathyscope.load(folder, dtype="float64")
    name, loading, identity = by_name(model, {"attn": "eager"})
    assert identity is not None
    assert (name, identity) == (str(folder), identity_of(model))
    assert (loading["dtype"], loading["device"], loading["placement"]) == ("float64", "cpu", "resident")
    assert loading["attn"] == "eager"
    assert bathyscope.load(name, **loading).weight_hash == identity.weights


def kill_at_random(out: Path, pids: Callable[[], list[int]], killed: list[int], end: threading.Event) -> None:
    """Kills a process of those there are, at some moment after a further shard was written; keeps their numbers."""
    draw = random.Random(0)
    written = 0
    while len(killed) < WORKER_KILLS and not end.wait(0.1):
        there = len(list(out.rglob("shard-*.nc")))
        found = pids()
        if there > written and found:
            end.wait(draw.uniform(0, 3))
            written, pid = there, draw.choice(pids() or found)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)


def worker_pids() -> list[int]:
    import psutil

    return [one.pid for one in psutil.Process().children(recursive=True) if "ray::Worker" in " ".join(command(one))]


def command(process: Any) -> list[str]:
    import psutil

    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
def test_random_kills_of_workers_change_no_byte(folder: Path, tmp_path: Path) -> None:
    many = [prompt for _ in range(WORKER_KILLS // 4 + 1) for prompt in prompts()]
    asked = {"measures": MEASURES, "batch_tokens": 20, "progress": False, "control": "shuffled_text"}
    bathyscope.survey(folder, many, out=tmp_path / "one", **asked)
    killed: list[int] = []
    surveys = 0
    # how many kills a survey has time for is the machine's matter, and how many there are in all is not
    while len(set(killed)) < WORKER_KILLS:
        out, end = tmp_path / f"many-{surveys}", threading.Event()
        before, surveys = len(killed), surveys + 1
        killer = threading.Thread(target=kill_at_random, args=(out, worker_pids, killed, end))
        killer.start()
        try:
            found = bathyscope.survey(folder, many, out=out, engine="ray", workers=2, **asked)
        finally:
            end.set()
            killer.join()
        assert len(killed) > before, "a survey ended before one of its workers was killed"
        assert hashes(out) == hashes(tmp_path / "one")
        assert list(found.controls) == ["shuffled_text-0"]


@pytest.mark.thorough
def test_a_killed_driver_is_resumed(folder: Path, tmp_path: Path) -> None:
    """Killed at random, and once asked to end."""
    ids = [{"ids": list(prompt.ids)} for prompt in prompts()] * 3
    (tmp_path / "prompts.jsonl").write_text("\n".join(json.dumps(one) for one in ids))
    asked = [sys.executable, "-m", "bathyscope", "survey", str(folder), "--prompts", str(tmp_path / "prompts.jsonl")]
    asked += ["--measures", "lens,skip", "--batch-tokens", "20", "--quiet"]
    subprocess.run([*asked, "--out", str(tmp_path / "one")], check=True, capture_output=True)
    many = tmp_path / "many"
    again = [*asked, "--out", str(many), "--engine", "ray", "--workers", "2"]
    draw = random.Random(1)
    for number in range(DRIVER_KILLS + 1):
        before = len(list(many.glob("shard-*.nc")))
        driver = subprocess.Popen(again, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while driver.poll() is None and len(list(many.glob("shard-*.nc"))) == before:
            time.sleep(0.1)
        time.sleep(draw.uniform(0, 0.5))
        driver.send_signal(signal.SIGTERM if number == DRIVER_KILLS else signal.SIGKILL)
        _, said = driver.communicate(timeout=60)
        if number < DRIVER_KILLS:
            assert driver.returncode == -signal.SIGKILL, said.decode()
        elif driver.returncode:
            assert driver.returncode == 130, said.decode()
            assert "shards are saved in" in said.decode()
    assert len(list(many.glob("shard-*.nc"))) > 0
    ended = subprocess.run(again, check=True, capture_output=True)
    assert ended.stdout.decode().startswith(bathyscope.open(many).headline()[:20])
    assert hashes(many) == hashes(tmp_path / "one")


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
def test_a_node_that_leaves_is_survived(folder: Path, tmp_path: Path) -> None:
    from ray.cluster_utils import Cluster

    whole = survey(folder, tmp_path / "one")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    out = tmp_path / "many"
    try:
        other = cluster.add_node(num_cpus=1)
        left = threading.Event()

        def remove() -> None:
            while not list(out.glob("shard-*.nc")):
                time.sleep(0.05)
            cluster.remove_node(other)
            left.set()

        threading.Thread(target=remove, daemon=True).start()
        found = survey(folder, out, engine="ray", workers=2, address=cluster.address)
        assert left.wait(30)
    finally:
        cluster.shutdown()
    assert hashes(out) == hashes(tmp_path / "one")
    assert found.verdict.text == whole.verdict.text


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
def test_a_worker_that_hangs_is_replaced_and_a_deadly_shard_ends_the_survey(folder: Path, tmp_path: Path) -> None:
    """In one cluster, which the calling program has begun and keeps."""
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        with workers.shipped():
            sleepy = ["lens", workers.Deadly({"mark": str(tmp_path / "slept"), "seconds": 600.0})]
            survey(folder, tmp_path / "slept-run", sleepy, engine="ray", workers=2, worker_timeout=40)
            survey(folder, tmp_path / "one", sleepy)
            assert (tmp_path / "slept").exists()
            assert hashes(tmp_path / "slept-run") == hashes(tmp_path / "one")
            deadly = ["lens", workers.Deadly({"mark": str(tmp_path / "died"), "again": True})]
            with pytest.raises(
                ModelError, match=r"5 workers were lost while shard \d \(prompts \d to \d\) was computed"
            ):
                survey(folder, tmp_path / "dead", deadly, engine="ray", workers=2)
            assert list((tmp_path / "dead").glob("shard-*.nc"))
        with pytest.raises(PromptError, match="token"):
            bathyscope.survey(folder, [[10**9, 1, 2]], ["lens"], engine="ray", workers=1)
        with pytest.raises(OptionError, match=r"workers=3, and the cluster has 2 cores, one for each worker"):
            survey(folder, tmp_path / "run", engine="ray", workers=3)
        assert ray.is_initialized()
    finally:
        ray.shutdown()
