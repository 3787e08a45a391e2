"""``python -m studies.interventions``: measure the interventions on a real model, write their page."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from cyclopts import App

from studies.common.command import Quiet
from studies.common.console import quiet_libraries, say
from studies.real_model.models import REAL_MODELS, ModelKey

PAGE = Path(__file__).resolve().parents[2] / "docs" / "experiments" / "interventions.md"

app = App(name="interventions", help="Parallel neighbours and bounded activations, on two real models.")


@app.command(name="measure")
def measure_command(
    *,
    data: Path,
    model: ModelKey = "smollm2",
    folder: Path | None = None,
    results: Path | None = None,
    only: Literal["pairs", "pairs_untrained", "massive", "closer"] | None = None,
    quiet: Quiet = False,
) -> int:
    """Measure what is not stored yet; SmolLM2 takes about ten CPU minutes, Gemma 3 fifteen.

    Args:
        data: folder with the data sets, of which text/wikitext2_valid.txt is read.
        model: SmolLM2-135M-Instruct or Gemma 3 270M.
        folder: of the model; left out = where ``studies.real_model fetch`` stores it.
        results: folder of results; left out = the one in this repository.
        only: one of the files; left out = all.
        quiet: no messages; warnings and errors remain.
    """
    from studies.interventions.measuring import RESULTS, STUDIES, measure
    from studies.real_model.fetching import fetch

    real = REAL_MODELS[model]
    chosen = STUDIES if only is None else (only,)
    with quiet_libraries():
        measure(real, folder or fetch(real), data, chosen, results or RESULTS, lambda line: say(line, quiet))
    return 0


@app.command(name="page")
def page_command(*, results: Path | None = None, page: Path | None = None) -> int:
    """Write the tables of the page from the stored results.

    Args:
        results: folder of results; left out = the one in this repository.
        page: Markdown with the marks; left out = docs/experiments/interventions.md.
    """
    from studies.interventions.measuring import RESULTS
    from studies.interventions.page import with_results

    place = page or PAGE
    place.write_text(with_results(place.read_text(encoding="utf-8"), results or RESULTS), encoding="utf-8")
    return 0
