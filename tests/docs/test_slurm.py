"""The scripts for Slurm run as printed, under stand-ins for ``sbatch`` and ``srun`` that only set Slurm's variables."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support import zoo
from support.rank_matrix import CLOSE

import bathyscope

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "many_machines.md"
PATIENCE = 900
"""Seconds after which a script counts as hanging, on a machine however busy."""

SBATCH = """
import os, re, subprocess, sys
words, options = sys.argv[1:], {}
while words and words[0].startswith("--"):
    name, _, value = words.pop(0).partition("=")
    options[name] = value or (words.pop(0) if name == "--wrap" else "")
if "--wrap" not in options:
    with open(words[0]) as file:
        script = file.read()
    assert script.startswith("#!/bin/bash\\n#SBATCH --")
    words = ["bash", *words]
else:
    words = ["bash", "-c", options["--wrap"]]
first, _, last = options.get("--array", "0-0").partition("-")
for number in range(int(first), int(last) + 1):
    array = {"SLURM_ARRAY_TASK_ID": str(number), "SLURM_ARRAY_TASK_COUNT": str(int(last) - int(first) + 1)}
    slurm = {"SLURM_JOB_ID": "7", "SLURM_GPUS_ON_NODE": "2", **(array if "--array" in options else {})}
    subprocess.run(words, check=True, env=os.environ | slurm, stdout=sys.stderr)
if "--parsable" in options:
    print(7)
assert options.get("--dependency", "afterok:7") == "afterok:7"
"""
"""A queue that runs each job at once, to its end; of options it knows those that the page uses."""

SRUN = """
import os, sys
os.execvpe(sys.argv[1], sys.argv[1:], os.environ | {"SLURM_PROCID": "0", "SLURM_NTASKS": "1"})
"""

REPLACED = {
    "Qwen/Qwen2.5-7B": "model",
    "Qwen/Qwen2.5-72B": "model",
    "gsm8k:1000": "p.jsonl",
    "gsm8k:100": "p.jsonl",
    "lens,skip": "residual,lens --batch-tokens 16",
    "1-16": "1-2",
}
"""What differs here: a tiny model and its prompts, a shard each, and two jobs."""


def blocks() -> list[str]:
    """The blocks of code of the page's section."""
    (section,) = re.findall(r"^## Slurm\n(.*?)^## ", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    return re.findall(r"^```bash\n(.*?)^```", section, re.M | re.S)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a tiny model, prompts, both scripts, and the programs that they call."""
    zoo.entry("llama").build().save_pretrained(tmp_path / "model")
    ids = [[5 + number, 6, 7, 8, 9, 10, 11 + number, 12, 13] for number in range(4)]
    (tmp_path / "p.jsonl").write_text("\n".join(json.dumps({"ids": own}) for own in ids), encoding="utf-8")
    programs = {
        "sbatch": SBATCH,
        "srun": SRUN,
        "bathyscope": "import sys\nfrom bathyscope.cli import main\nsys.exit(main())\n",
        "torchrun": "import sys\nfrom torch.distributed.run import main\nsys.exit(main())\n",
    }
    (tmp_path / "bin").mkdir()
    for name, code in programs.items():
        program = tmp_path / "bin" / name
        program.write_text(f"#!{sys.executable}\n{code}", encoding="utf-8")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    parts, _, ranks, _ = blocks()
    (tmp_path / "parts.sh").write_text(parts, encoding="utf-8")
    (tmp_path / "ranks.sh").write_text(ranks, encoding="utf-8")
    return tmp_path


def hand_in(commands: str, place: Path) -> None:
    """Run what is typed into a shell, in a folder, with the stand-ins."""
    for printed, here in REPLACED.items():
        commands = commands.replace(printed, here)
    environment = os.environ | {
        "PATH": os.pathsep.join((str(place / "bin"), os.environ["PATH"])),
        "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), os.environ.get("PYTHONPATH", ""))),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        ["bash", "-e", "-c", commands],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def in_one_piece(place: Path, monkeypatch: pytest.MonkeyPatch) -> bathyscope.Run:
    """The same survey by one process, of the same names."""
    monkeypatch.chdir(place)
    return bathyscope.survey("model", "p.jsonl", "residual,lens", place / "whole", batch_tokens=16, progress=False)


def test_an_array_of_parts_is_joined_to_the_run_of_one_process(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hand_in(blocks()[1], place)
    shards = [{path.name for path in (place / "parts" / part).glob("shard-*.nc")} for part in ("1", "2")]
    assert shards == [{"shard-00000.nc", "shard-00001.nc"}, {"shard-00002.nc", "shard-00003.nc"}]
    whole = in_one_piece(place, monkeypatch)
    joined = place / "runs" / "qwen"
    assert bathyscope.open(joined).measures == whole.measures
    files = [path.name for path in sorted((place / "whole").glob("*.nc"))]
    assert len(files) > 4
    differing = [name for name in files if (joined / name).read_bytes() != (place / "whole" / name).read_bytes()]
    assert not differing


def test_a_node_of_several_devices_gives_the_run_of_one_process(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hand_in(blocks()[3], place)
    run, whole = bathyscope.open(place / "runs" / "qwen-72b"), in_one_piece(place, monkeypatch)
    assert run.manifest["record"]["notes"]["ranks"] == [2]
    assert run.identity == whole.identity
    for measure in ("residual", "lens"):
        for name, values in whole[measure].data_vars.items():
            if values.dtype.kind == "f":
                np.testing.assert_allclose(run[measure][name], values, rtol=CLOSE, atol=CLOSE, err_msg=str(name))
