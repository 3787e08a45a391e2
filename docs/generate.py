"""Pages and pictures of the site that are made, not written, into ``docs/generated``: ``python docs/generate.py``.

The pictures are those of the bundled model, and of models that were built so that a figure misleads on them.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import bathyscope

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT), str(ROOT / "docs")]

ADOPTED: Final = {
    "CONTRIBUTING.md": "contributing",
    "CHANGELOG.md": "changelog",
    "checkpoints/README.md": "checkpoints",
}
"""Pages that lie beside the folder of documents, and their names on the site."""
MISLED: Final = {
    "effective_depth": ("near_identity", "estimates"),
    "residual": ("sink", "norms"),
    "lens": ("rotated", "kl"),
    "translated_lens": ("unused_copy", "top1_agreement"),
    "skip": ("busy", "future"),
    "direct": ("identity", "all"),
    "depth_score": ("busy", "layer"),
    "erasure": ("busy", "prompt_0"),
    "patching": ("busy", "prompt_0"),
    "drop": ("either", "kl"),
    "swap": ("either", "kl"),
}
"""Figure → the built model that misleads it (or shows what it means), and the panel to look at."""
FITTED: Final = "addition:120?digits=2"
"""Enough tokens to fit maps to, and problems of one length, so that each can be patched from another."""
SHORT: Final = "addition:12?digits=1"
"""Other problems than those that lenses are fitted to."""


def main(arguments: Sequence[str]) -> None:
    """Everything, into the folder that is given or ``docs/generated``."""
    folder = Path(arguments[0]) if arguments else ROOT / "docs" / "generated"
    texts(folder)
    runs = survey_bundled()
    gallery(runs, folder / "figures")
    thumbnails(runs, folder)
    space(live(runs[0], folder / "live"), folder / "space")
    planted(folder / "planted")


def texts(folder: Path) -> None:
    """All that is made without a model: pages from beside the documents, and tables."""
    import causal_types
    import quantised
    import tensor_parallel
    import ways

    adopt(folder)
    write(folder / "commands.md", commands())
    write(folder / "families.md", families())
    for name, text in measures().items():
        write(folder / "measures" / f"{name}.md", text)
    write(folder / "causal_types.md", causal_types.page(causal_types.read_table()))
    write(folder / "tensor_parallel.md", tensor_parallel.page(tensor_parallel.read_table()))
    write(folder / "quantised.md", quantised.page(quantised.read_table()))
    write(folder / "ways.md", ways.page(ways.read_table()))


def write(path: Path, text: str) -> None:
    """The file, with its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def adopt(folder: Path) -> None:
    """Pages from beside the folder of documents, their links made to start from here."""
    for place, name in ADOPTED.items():
        text = (ROOT / place).read_text(encoding="utf-8")
        text = text.replace("](../docs/", "](docs/").replace("](docs/", "](../")
        write(folder / f"{name}.md", text)


def commands() -> str:
    """The help of every command, as it is printed."""
    from bathyscope.cli import main as run
    from bathyscope.cli.app import app
    from bathyscope.cli.contents import every_command

    parts = ["# Commands\n", "The last word of a command is its call in Python, whose arguments its flags are.\n"]
    listed = {(name,) for name in app if not name.startswith("-")}
    for words in sorted({*listed, *every_command()}):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            run([*words, "--help"])
        lines = [line.rstrip() for line in printed.getvalue().strip().splitlines()]
        parts.append(f"## {' '.join(words)}\n\n{_first_sentence(lines)}\n")
        # Folded, or the page would be as long as forty screens.
        parts.append(
            "\n".join(["<details><summary>Usage and flags</summary>\n", "```text", *lines, "```\n", "</details>\n"])
        )
    return "\n".join(parts)


def _first_sentence(lines: Sequence[str]) -> str:
    """The first paragraph of a help behind its usage."""
    paragraphs = "\n".join(lines).split("\n\n")
    return " ".join(paragraphs[1].split()) if len(paragraphs) > 1 else ""


def families() -> str:
    """The table of all families that are declared."""
    import bathyscope

    rows = bathyscope.names("families")
    lines = ["| family | model types | |", "|---|---|---|"]
    lines += [f"| {row['name']} | {row['model_types']} | {row['refused']} |" for row in rows]
    return "\n".join([*lines, ""])


def measures() -> dict[str, str]:
    """What the page of measures includes: the table of each, that of all, and sections of those that it has none of."""
    from bathyscope.labels import documented
    from bathyscope.measures.registry import MEASURES, home_of

    head = ["| variable | dimensions | units | what | formula | source |", "|---|---|---|---|---|---|"]
    parts = {name: "\n".join([*head, *documented(measure.table or {}), ""]) for name, measure in MEASURES.items()}
    described = sections((ROOT / "docs" / "measures.md").read_text(encoding="utf-8"))
    others = {name: ast.get_docstring(ast.parse(home_of(name).read_text(encoding="utf-8"))) for name in MEASURES}
    parts["others"] = "\n".join(
        f"## {name}\n\n{text}\n\n{_picture(name)}{parts[name]}"
        for name, text in others.items()
        if name not in described
    )
    return {"overview": "\n".join([*questions(), ""]), **parts}


def questions() -> list[str]:
    """The rows of a table of all measures: what each answers, and which rows it needs."""
    from bathyscope.measures.registry import MEASURES

    rows = [f"| `{name}` | {measure.question} | {measure.rows} |" for name, measure in MEASURES.items()]
    return ["| measure | question | rows it needs |", "|---|---|---|", *rows]


def sections(page: str) -> list[str]:
    """The headings of a page's sections."""
    return re.findall(r"^## (.+)$", page, re.MULTILINE)


def _picture(name: str) -> str:
    """The figure of a measure that the bundled model is drawn with; nothing where it has none."""
    from bathyscope.pages.figures.registry import FIGURES

    if name not in FIGURES:
        return ""
    return (
        f"```{{figure}} /generated/figures/{name}.svg\n:alt: {FIGURES[name].heading} of the bundled model.\n\n"
        "The bundled model on eight prompts.\n```\n\n"
    )


def survey_bundled(measures: Sequence[str] | str = "all", count: int | None = None) -> list[bathyscope.Run]:
    """Surveys of the bundled model on bundled prompts, or the first ``count`` of them, and what else figures need."""
    import bathyscope
    from bathyscope.model.bundled import model_path, prompts_path
    from bathyscope.prompts.source import resolve
    from bathyscope.prompts.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(model_path())
    model = replace(bathyscope.load(model_path(), dtype="float32", tokenizer=tokenizer), name="bundled model")
    prompts = replace(resolve(prompts_path()), dataset="bundled prompts")
    runs = [_quietly(model, replace(prompts, prompts=prompts.prompts[:count]), measures)]
    if measures == "all":
        runs.append(_quietly(model, FITTED, ["translated_lens", "patching"], patching={"pairs": _pairs(model)}))
        runs.append(
            _quietly(
                model, SHORT, ["jacobian_lens"], jacobian_lens={"prompts": FITTED, "skip_first": 1, "directions": 32}
            )
        )
    return runs


def gallery(runs: Sequence[bathyscope.Run], folder: Path) -> list[Path]:
    """All figures of the runs that have a page; the depth profile, which has none, stands on the first page."""
    from bathyscope.pages import save_figures
    from bathyscope.pages.figures.registry import FIGURES

    written = [path for run in runs for path in save_figures(run, folder, formats=("svg",))]
    for path in {path for path in written if path.stem not in FIGURES}:
        path.unlink()
    return [path for path in written if path.stem in FIGURES]


def thumbnails(runs: Sequence[bathyscope.Run], folder: Path) -> list[Path]:
    """The first panel of every figure as a small picture, and the page part that links each to its figure's page."""
    from bathyscope.pages.figures.kind import draw_panel
    from bathyscope.pages.figures.registry import FIGURES, drawings
    from bathyscope.pages.figures.render import render

    panels = {name: drawing.panels[0] for run in reversed(runs) for name, drawing in drawings(run).items()}
    (folder / "thumbnails").mkdir(parents=True, exist_ok=True)
    parts, paths = [], []
    for name in (name for name in FIGURES if name in panels):
        paths.append(folder / "thumbnails" / f"{name}.png")
        paths[-1].write_bytes(render(draw_panel(panels[name], 3.3), "png"))
        page = f"{name}.html" if (ROOT / "docs" / "figures" / f"{name}.md").exists() else f"../measures.html#{name}"
        parts.append(
            f"```{{image}} /generated/thumbnails/{name}.png\n:alt: {FIGURES[name].heading}\n:width: 215px\n"
            f":target: {page}\n:class: thumbnail\n```\n"
        )
    write(folder / "thumbnails.md", "\n".join(parts))
    return paths


def live(run: bathyscope.Run, folder: Path) -> Path:
    """The report of the bundled model, a page that stands next to those of the site."""
    import bathyscope

    folder.mkdir(parents=True, exist_ok=True)
    return bathyscope.report([run], folder / "demo.html", title="A live report of the bundled model")


def space(page: Path, folder: Path) -> Path:
    """Write the folder of a static Hugging Face Space that shows the page; upload it as it is."""
    write(folder / "index.html", page.read_text(encoding="utf-8"))
    settings = {"title": "bathyscope", "sdk": "static", "app_file": "index.html", "license": "apache-2.0"}
    lines = [f"{name}: {value}" for name, value in settings.items()]
    text = "How a language model uses its depth: the report of bathyscope's bundled model."
    write(folder / "README.md", "\n".join(["---", *lines, "---", "", text, ""]))
    return folder


def planted(folder: Path, figures: Iterable[str] = MISLED) -> list[Path]:
    """For each figure one panel of the built model that it is shown on."""
    import bathyscope
    from bathyscope.extend.figures import render
    from studies.planted import CONSTRUCTIONS, surveyed

    figures = list(figures)
    runs = {name: surveyed(CONSTRUCTIONS[name]) for name in dict.fromkeys(MISLED[one][0] for one in figures)}
    for figure in figures:
        name, panel = MISLED[figure]
        drawn = bathyscope.plot(runs[name], f"{figure}.{panel}")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{figure}.svg").write_bytes(render(drawn, "svg"))
    return [folder / f"{figure}.svg" for figure in figures]


def _pairs(model: bathyscope.Model) -> list[tuple[int, int]]:
    """Two pairs of problems whose questions and answers have as many tokens."""
    from bathyscope.model import tokenized

    alike: dict[tuple[int, int | None], list[int]] = {}
    for number, prompt in enumerate(tokenized(model, FITTED)):
        alike.setdefault((len(prompt), prompt.answer_tokens), []).append(number)
    same = max(alike.values(), key=len)
    return [(same[0], same[1]), (same[2], same[3])]


def _quietly(model: Any, prompts: Any, measures: Any, **options: Mapping[str, Any]) -> bathyscope.Run:
    import bathyscope

    with warnings.catch_warnings():
        # of measures that a few short prompts do not give
        warnings.simplefilter("ignore")
        return bathyscope.survey(model, prompts, measures, progress=False, **options)


if __name__ == "__main__":
    main(sys.argv[1:])
