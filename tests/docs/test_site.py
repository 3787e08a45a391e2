"""The site: its contents are whole, its pictures can be made, and the build is strict."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest
from support.browser import browser, opened
from support.fresh import fresh_module

import bathyscope
from bathyscope import extend
from bathyscope.pages.figures import of
from bathyscope.pages.figures.registry import FIGURES

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SURVEY_PAGE = "generated/api/bathyscope.survey"


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    return fresh_module(DOCS / "generate.py", "docs_generate")


def built(source: Path, out: Path, builder: str) -> subprocess.CompletedProcess[str]:
    """A strict build, its notebooks read and not run."""
    code = (
        "import os, sys; os.environ['BATHYSCOPE_DOCS_NOTEBOOKS'] = 'off'; "
        "from sphinx.cmd.build import main; sys.exit(main(sys.argv[1:]))"
    )
    arguments = ["-W", "--keep-going", "-n", "-q", "-b", builder, str(source), str(out)]
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)


@pytest.fixture
def source(generate: ModuleType, tmp_path: Path) -> Path:
    """The documents with what is made for them, the pictures blank."""
    copy = tmp_path / "docs"
    shutil.copytree(DOCS, copy, ignore=shutil.ignore_patterns("generated"))
    generate.texts(copy / "generated")
    blank = '<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"></svg>'
    for name in FIGURES:
        generate.write(copy / "generated" / "figures" / f"{name}.svg", blank)
    generate.write(copy / "generated" / "thumbnails.md", "")
    generate.write(copy / "generated" / "live" / "demo.html", "<!DOCTYPE html><title>A live report</title>")
    for name in generate.MISLED:
        generate.write(copy / "generated" / "planted" / f"{name}.svg", blank)
    return copy


@pytest.mark.thorough
def test_the_site_builds_without_a_warning_and_not_with_a_broken_link(source: Path, tmp_path: Path) -> None:
    done = built(source, tmp_path / "site", "dummy")
    assert (done.returncode, done.stderr) == (0, "")
    with (source / "get_started.md").open("a", encoding="utf-8") as page:
        page.write("\n[nowhere](nowhere.md), [no heading](faq.md#no-such-heading)\n")
    done = built(source, tmp_path / "site", "dummy")
    assert done.returncode != 0
    assert "nowhere.md" in done.stderr
    assert "no-such-heading" in done.stderr


@pytest.mark.thorough
def test_everything_that_is_made_is_made_and_shown(tmp_path: Path) -> None:
    copy = tmp_path / "docs"
    shutil.copytree(DOCS, copy, ignore=shutil.ignore_patterns("generated"))
    subprocess.run([sys.executable, str(DOCS / "generate.py"), str(copy / "generated")], check=True)
    made = {path.stem for path in (copy / "generated" / "figures").iterdir()}
    assert made == set(FIGURES)
    done = built(copy, tmp_path / "site", "html")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "site" / "figures" / "lens.html").is_file()
    # a page of each kind, in both colours
    looked_at = ("index", "search", "genindex", "api", "real_model", "notebooks/first_survey", SURVEY_PAGE)
    with browser() as chromium:
        for name in looked_at:
            for scheme in ("light", "dark"):
                path = tmp_path / "site" / f"{name}.html"
                with opened(chromium, path, color_scheme=scheme) as page:
                    assert page.axe() == [], (name, scheme)


def test_pictures_are_of_the_bundled_model(generate: ModuleType, tmp_path: Path) -> None:
    runs = generate.survey_bundled(("lens", "drop"), count=2)
    written = generate.gallery(runs, tmp_path)
    assert [path.stem for path in written] == ["lens", "drop"]
    assert all(path.read_text(encoding="utf-8").lstrip().startswith("<?xml") for path in written)
    thumbnails = generate.thumbnails(runs, tmp_path)
    assert [path.stem for path in thumbnails] == ["lens", "drop"]
    listed = (tmp_path / "thumbnails.md").read_text(encoding="utf-8")
    assert re.findall(r":target: (\w+)\.html", listed) == ["lens", "drop"]
    assert "A live report" in generate.live(runs[0], tmp_path / "live").read_text(encoding="utf-8")


def test_what_models_mislead_are_figures(generate: ModuleType) -> None:
    """That there are such models is tested with them."""
    assert set(generate.MISLED) <= set(FIGURES)


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_has_a_page(name: str, generate: ModuleType) -> None:
    """One that is drawn by the table of its measure stands in the section of that measure."""
    if find_spec(f"{of.__name__}.{name}") is None and name not in of.curves.FIGURES:
        assert f"/generated/figures/{name}.svg" in generate.measures()["others"]
        return
    text = (DOCS / "figures" / f"{name}.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert headings == ["What it shows", "How it can mislead", "A model that shows it"]
    assert f"/generated/figures/{name}.svg" in text
    assert (f"/generated/planted/{name}.svg" in text) == (name in generate.MISLED)


def test_every_public_name_is_on_the_page_of_calls() -> None:
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    tables = re.findall(r"^\.\. autosummary::\n   :toctree: generated/api\n.*?\n\n((?:   \S+\n)+)", text, re.M | re.S)
    listed = [name for table in tables for name in table.split() if "." not in name]
    modules = [one for name in extend.__all__ if isinstance(one := getattr(extend, name), ModuleType)]
    assert len(modules) == 3
    public = {name: module for module in (bathyscope, extend, *modules) for name in module.__all__}
    # a module is described by what it holds
    assert set(listed) == {name for name, module in public.items() if not isinstance(getattr(module, name), ModuleType)}


def test_every_family_and_command_is_in_its_table(generate: ModuleType) -> None:
    rows = generate.families().splitlines()[2:]
    assert [row.split(" | ")[0].strip("| ") for row in rows] == [row["name"] for row in bathyscope.names("families")]
    commands = generate.commands()
    assert "## compare depth-performance\n" in commands
    # the help of each is folded, and nothing else is
    assert commands.count("\n## ") == commands.count("<details><summary>") == commands.count("</details>") > 0
    unfolded = re.sub(r"<details>.*?</details>", "", commands, flags=re.S)
    assert "--" in commands
    assert "Usage:" not in unfolded


def test_a_space_is_a_static_page_with_its_settings(generate: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "demo.html"
    page.write_text("<!DOCTYPE html><title>live</title>", encoding="utf-8")
    folder = generate.space(page, tmp_path / "space")
    assert (folder / "index.html").read_bytes() == page.read_bytes()
    head = (folder / "README.md").read_text(encoding="utf-8").split("---")[1]
    assert {"sdk: static", "app_file: index.html"} <= set(head.split("\n"))
