"""Whether two versions of the sources give the same values: every measure, on several models, side by side.

    python benchmarks/same_values.py OLD/src                        # a trained model, and three families of random ones
    python benchmarks/same_values.py OLD/src --model FOLDER         # a checkpoint instead
    python benchmarks/same_values.py OLD/src --model FOLDER --measures lens,skip

Each version runs in a process of its own. For each measure the largest difference of any array is printed, in units of
the largest value of that array and as it is, and every noise floor that has grown.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
FAMILIES = ("gemma2", "cohere", "granite")
"""Logits that are capped, multiplied and divided."""
LARGE = 1e-6
TEXTS = (
    ("The cat sat on the mat and looked at the bird that sang in the", " tree", 2),
    ("Once upon a time there was a girl who had a dog and a red", " ball", 2),
    ("Tom and Ann went to the park. They saw a big tree and Tom said: it is a very big", " tree", 3),
    ("The sun was warm, the sky was blue, and all of the birds began to", " sing", 3),
    ("Ann has two apples. She gives one apple to Tom. Now Ann has", " one", 2),
    ("It was a cold day. The little boy put on his hat and ran out to play in the", " snow", 3),
)
"""Each with its answer and its number of hops."""


def survey_values(model: str, measures: str, file: Path) -> None:
    """Survey a model with the sources of this process, and write every array to a file."""
    import torch

    import bathyscope
    from bathyscope import Prompt, load, survey

    torch.set_num_threads(1)
    if model in FAMILIES:
        # each version builds its random models itself: their parts have moved since
        sys.path.insert(0, str(Path(bathyscope.__file__).parents[2] / "tests"))
        from support import zoo

        loaded = load(zoo.build(model))
        generator = torch.Generator().manual_seed(1)
        most = loaded.anatomy.vocabulary - 1
        prompts = [
            Prompt(
                ids=torch.randint(5, most, (18 + number,), generator=generator).tolist(),
                answer_tokens=2,
                labels={"hops": hops},
            )
            for number, (*_, hops) in enumerate(TEXTS)
        ]
    else:
        loaded = load(model, dtype="float32")
        prompts = [Prompt(text=text + answer, answer=answer, labels={"hops": hops}) for text, answer, hops in TEXTS]
    run = survey(loaded, prompts, measures if measures == "all" else measures.split(","), progress=False)
    arrays: dict[str, np.ndarray] = {}
    for measure in run.measures:
        for name, values in run[measure].data_vars.items():
            if values.dtype.kind in "fiub":
                arrays[f"{measure}/{name}"] = values.values
            for attribute, number in values.attrs.items():
                if "floor" in str(attribute):
                    arrays[f"{measure}/{name}/{attribute}"] = np.asarray(number, dtype=float)
        for attribute, number in run[measure].attrs.items():
            if "floor" in str(attribute) and np.asarray(number).dtype.kind in "fi":
                arrays[f"{measure}//{attribute}"] = np.asarray(number, dtype=float)
    np.savez(file, **arrays)


def compare_versions(model: str, old: Path, measures: str) -> None:
    """Print how far the values of two versions are apart."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{name}.npz" for name in ("old", "new")]
        for sources, file in zip((old, ROOT / "src"), files):
            variables = os.environ | {"PYTHONPATH": f"{sources}:{sources.parent / 'packages/bathyscope-lab/src'}"}
            command = [sys.executable, __file__, str(sources), "--model", model, "--measures", measures]
            subprocess.run([*command, "--write", str(file)], env=variables, check=True)
        earlier, now = (dict(np.load(file)) for file in files)
    print(f"{model}: {len(now)} arrays, {len(set(earlier) & set(now))} of them in both versions")
    by_measure: dict[str, list[tuple[float, float, str]]] = {}
    for name in sorted(set(earlier) & set(now)):
        before, after = (values.astype(float) for values in (earlier[name], now[name]))
        if before.shape != after.shape or not np.array_equal(np.isnan(before), np.isnan(after)):
            print(f"  {name}: other shape or other missing values: {before.shape}, {after.shape}")
            continue
        if "floor" in name:
            if np.nanmax(after, initial=0) > np.nanmax(before, initial=0):
                print(f"  {name}: floor grew from {np.nanmax(before):.9g} to {np.nanmax(after):.9g}")
            continue
        gap = float(np.nanmax(np.abs(after - before), initial=0))
        scale = float(np.nanmax(np.abs(before), initial=0))
        relative = gap / scale if scale else gap
        by_measure.setdefault(name.partition("/")[0], []).append((relative, gap, name))
        if relative > LARGE:
            print(f"  {name}: {relative:.1e} of its largest value ({gap:.1e})")
    for measure, gaps in by_measure.items():
        relative, gap, name = max(gaps)
        equal = sum(gap == 0 for _, gap, _ in gaps)
        print(f"  {measure:<24} {equal:>3} of {len(gaps):>3} equal   {relative:.1e} of {name}   ({gap:.1e})")
    for name in sorted(set(earlier) ^ set(now)):
        print(f"  in one version alone: {name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=Path, help="src folder of the other version")
    parser.add_argument("--model", action="append", help="a folder or a family; several times for several")
    parser.add_argument("--measures", default="all")
    parser.add_argument("--write", type=Path, help="survey with the sources of PYTHONPATH, and write the arrays here")
    arguments = parser.parse_args()
    models = arguments.model or [str(ROOT / "../shared/checkpoints/stories260K"), *FAMILIES]
    if arguments.write:
        survey_values(models[0], arguments.measures, arguments.write)
        return
    for model in models:
        compare_versions(model, arguments.sources.resolve(), arguments.measures)


if __name__ == "__main__":
    main()
