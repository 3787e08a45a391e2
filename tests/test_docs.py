"""What the documents say is there: every variable of every measure, every linked file, every command."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from cyclopts import CycloptsError
from support import zoo
from support.fresh import fresh_module
from support.misfits import misfits
from support.word_tokenizer import word_tokenizer

import bathyscope
from bathyscope.cli.app import app
from bathyscope.core.commands import PLACES
from bathyscope.measures.registry import MEASURES
from bathyscope.surveying.papers.presets import PRESETS

ROOT = Path(__file__).resolve().parents[1]
TOP = ("README.md", "SKILL.md", "CONTRIBUTING.md", "CHANGELOG.md", "checkpoints/README.md")
HOUSES = ("src", "packages", "studies", "benchmarks", "tests", "docs")
PAGES = [*(ROOT / name for name in TOP)]
PAGES += [page for page in sorted((ROOT / "docs").rglob("*.md")) if "generated" not in page.parts]
MADE = {"generated/commands.md", "../generated/commands.md"}
"""Pages of the site that docs/generate.py makes."""
OF_THE_CODE = [ROOT / name for name in ("CONTRIBUTING.md", "docs/architecture.md")]
OF_THE_CODE += [ROOT / "docs" / "design" / name for name in ("intervals.md", "planted_depth.md")]


@pytest.fixture(scope="module")
def run() -> bathyscope.Run:
    model = zoo.build("llama")
    lengths = (14, 9, 14, 12)
    prompts = [
        bathyscope.Prompt(ids=ids, answer_tokens=2, labels={"pair": 1} if len(ids) == 14 else {})
        for ids in zoo.prompts(model, lengths)
    ]
    # some variables are there with these options alone
    sampled = {"read_tokens": 5}
    options = {
        "drop": sampled,
        "swap": sampled,
        "repeat": {"length": 2, **sampled},
        "skip": sampled,
        "erasure": {"future": True},
    }
    return bathyscope.survey(model, prompts, "all", progress=False, **options)


@pytest.fixture(scope="module")
def translated() -> bathyscope.Run:
    """It needs more prompts than all measures together should be given."""
    model = zoo.build("llama")
    *fitted, first, second = zoo.prompts(model, (30,) * 22)
    options = {"jacobian_lens": {"prompts": [first, second]}}
    return bathyscope.survey(model, fitted, ["translated_lens", "jacobian_lens"], progress=False, **options)


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    return fresh_module(ROOT / "docs" / "generate.py", "docs_generate")


def site_page(generate: ModuleType) -> str:
    """The page of measures with what it includes, as the site has it."""
    page = (ROOT / "docs" / "measures.md").read_text(encoding="utf-8")
    parts = generate.measures()
    return re.sub(
        r"^```\{include\} generated/measures/(\w+)\.md\n```$", lambda match: parts[match[1]], page, flags=re.MULTILINE
    )


def rows_of(measure: str, page: str) -> list[str]:
    """Rows of the table of a measure's variables in the page of measures."""
    (section,) = re.findall(rf"^## {measure}$(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    (table,) = section.split("| variable | dimensions | units | what | formula | source |")[1:]
    return re.findall(r"^\| `\w+` \| [^\n]*$", table, re.M)


@pytest.mark.parametrize("measure", MEASURES)
def test_the_page_has_a_section_with_the_table_of_every_measure(measure: str, generate: ModuleType) -> None:
    rows = rows_of(measure, site_page(generate))
    assert [row.split("`")[1] for row in rows] == list(MEASURES[measure].table or {})
    cells = [re.split(r" (?<!\\)\| ", row.strip("| ")) for row in rows]
    for (_, dims, units, what, *_), label in zip(cells, (MEASURES[measure].table or {}).values(), strict=True):
        assert dims.split(", ") == (list(label.always) or [""])
        assert units == label.units
        assert what
        assert "{" not in what


def test_a_measure_that_the_page_does_not_describe_has_a_section_of_its_own_words(
    generate: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = generate.sections((ROOT / "docs" / "measures.md").read_text(encoding="utf-8"))
    before = generate.measures()["others"]
    assert re.findall(r"^## (\w+)$", before, re.M) == [name for name in MEASURES if name not in described]
    monkeypatch.setattr(generate, "sections", lambda page: [name for name in MEASURES if name != "gradient"])
    section = generate.measures()["others"]
    assert section.startswith("## gradient\n\nGradient by depth: how strongly the loss reacts")
    assert "/generated/figures/gradient.svg" in section
    assert len(rows_of("gradient", section)) == 3


@pytest.mark.parametrize("measure", MEASURES)
def test_a_measure_says_what_it_answers(measure: str) -> None:
    declaration = MEASURES[measure]
    assert re.search(r"\?", declaration.question), f"give {measure} a question"
    assert declaration.rows, f"say which rows {measure} needs"
    assert "|" not in declaration.question + declaration.rows


def test_the_first_page_says_of_measures_what_they_say_of_themselves(generate: ModuleType) -> None:
    """It need not name every measure; those that it names come in their order."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    table = text.partition("| measure | question |")[2].partition("\n\n")[0].splitlines()[2:]
    names = [row.split("`")[1] for row in table]
    assert len(names) > 20
    assert table == [row for row in generate.questions()[2:] if row.split("`")[1] in names]


@pytest.mark.parametrize("measure", MEASURES)
def test_results_are_what_their_table_says(measure: str, run: bathyscope.Run, translated: bathyscope.Run) -> None:
    table = MEASURES[measure].table
    assert table is not None
    assert list(misfits(table, (translated if measure in translated else run)[measure])) == []


def test_the_noise_is_in_its_table(run: bathyscope.Run) -> None:
    page = (ROOT / "docs" / "measures.md").read_text(encoding="utf-8")
    cells = [row.split(" | ") for row in rows_of("noise", page)]
    listed = {name.strip("| `"): (dims, units) for name, dims, units, *_ in cells}
    assert listed == {
        str(n): (", ".join(map(str, v.dims)), v.attrs["units"]) for n, v in run["noise"].data_vars.items()
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page: Path) -> None:
    missing = []
    for target, _, heading in re.findall(r"\]\(([^)#\s]*)(#?)([^)\s]*)\)", prose(page)):
        if "://" in target or target in MADE:
            continue
        to = page.parent / target if target else page
        if not to.exists() or (heading and heading not in anchors(to)):
            missing.append(f"{target}#{heading}")
    assert missing == []


def prose(page: Path) -> str:
    """A page without its code."""
    return re.sub(r"^```.*?^```|`[^`\n]+`", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """What links may name of a page: its headings, written as both the site and the hosts of repositories do."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", OF_THE_CODE, ids=lambda page: page.name)
def test_files_of_code_that_a_page_names_are_there(page: Path) -> None:
    files = [path for house in HOUSES for path in (ROOT / house, *(ROOT / house).rglob("*"))]
    there = [f"/{path.relative_to(ROOT)}" for path in files]
    named = re.findall(r"`([\w./-]+(?:\.py|/))`", page.read_text(encoding="utf-8"))
    assert named
    if not (ROOT / "studies").is_dir():  # the instrument and its tests need none
        named = [name for name in named if not name.startswith("studies/")]
    assert [name for name in named if not any(path.endswith(f"/{name.strip('/')}") for path in there)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_nobody_is_told_to_import_from_deep_inside(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"^(?:from|import) bathyscope\.\w+\.[\w.]+.*", text, re.MULTILINE) == []
    named = re.findall(r"\bbathyscope\.(\w+)\(", text)
    assert [name for name in named if name not in bathyscope.__all__] == []


def texts_of_code(path: Path) -> list[str]:
    """What a file of code may print or explain: its strings, parts of f-strings set apart by a hole."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    strings = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr | ast.Constant)]
    return [
        "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
        if isinstance(node, ast.JoinedStr)
        else str(node.value)
        for node in strings
    ]


def test_nobody_is_told_a_name_of_the_version_before() -> None:
    old = re.compile(rf"\bbathyscope ({'|'.join(PLACES)})(?![\w-])")
    code = [path for house in ("src", "packages", "studies", "benchmarks") for path in (ROOT / house).rglob("*.py")]
    pages = [page for page in PAGES if page.name != "CHANGELOG.md" and "history" not in page.parts]
    pages += [ROOT / "llms.txt", *(ROOT / "docs").rglob("*.ipynb"), *(ROOT / "docs").rglob("*.py")]
    for house in ("src", "packages", "studies"):
        pages += [page for ending in ("md", "j2", "yaml", "sh", "js") for page in (ROOT / house).rglob(f"*.{ending}")]
    texts = {path: path.read_text(encoding="utf-8") for path in pages if "vendor" not in path.parts}
    texts |= {path: "\n".join(texts_of_code(path)) for path in code}
    told = {str(path.relative_to(ROOT)): old.findall(" ".join(text.split())) for path, text in texts.items()}
    assert {path: names for path, names in told.items() if names} == {}
    assert len(texts) > 600


def test_every_command_in_the_documents_is_there() -> None:
    commands = {name for name in app if not name.startswith("-")}
    for page in PAGES:
        for block in re.findall(r"^```(?:bash|sh)?\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S):
            used = re.findall(r"^bathyscope ([a-z][\w-]*)", block, re.MULTILINE)
            assert set(used) <= commands, page.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_in_the_documents_is_accepted(page: Path) -> None:
    """With its flags; a name alone, and what comes before a pipe or a remark, is looked at elsewhere."""
    refused = {}
    for line in commands_of(page.read_text(encoding="utf-8")):
        words = shlex.split(line, comments=True)[1:]
        if len(words) < 3 or "--help" in words or not set(line).isdisjoint("…"):
            continue
        try:
            app.parse_args(words, exit_on_error=False, print_error=False)
        except CycloptsError as error:
            refused[line] = str(error)
    assert {line: said for line, said in refused.items() if "requires an argument" not in said} == {}


def commands_of(text: str) -> list[str]:
    """Lines of a page's blocks of code, and what stands in its sentences as code."""
    blocks = "\n".join(re.findall(r"^ *```\w*\n(.*?)^ *```", text, re.M | re.S)).replace("\\\n", " ")
    rest = re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S)
    found = re.findall(r"^ *(bathyscope [a-z].*)", blocks, re.M)
    found += [line.replace("\n", " ") for line in re.findall(r"`(bathyscope [a-z][^`]+)`", rest)]
    return [re.split(r" \| | > | && ", line)[0] for line in found]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_calls_in_the_documents_have_arguments_that_there_are(page: Path) -> None:
    refused = []
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.Call) and re.fullmatch(r"bathyscope\.\w+", ast.unparse(node.func)):
                called = getattr(bathyscope, ast.unparse(node.func).partition(".")[2])
                places = sum(not isinstance(one, ast.Starred) for one in node.args)
                try:
                    inspect.signature(called).bind(*range(places), **{one.arg: 0 for one in node.keywords if one.arg})
                except TypeError as error:
                    refused.append(f"{ast.unparse(node)}: {error}")
    assert refused == []


def test_the_words_at_a_boundary_are_read_as_the_page_says() -> None:
    model = zoo.build("llama")
    words = [f"w{number}" for number in range(model.config.vocab_size - 2)]
    loaded = bathyscope.load(model, tokenizer=word_tokenizer(words))
    run = bathyscope.survey(loaded, ["w1 w2 w3", "w4 w5 w6 w7 w8 w9"], ["tokens"], progress=False)
    page = (ROOT / "docs" / "measures.md").read_text(encoding="utf-8")
    (code,) = [block for block in re.findall(r"^```python\n(.*?)^```", page, re.M | re.S) if '["tokens"]' in block]
    *lines, last = code.replace("boundary=6", "boundary=2").splitlines()
    names: dict[str, Any] = {"run": run}
    exec("\n".join([*lines, f"found = {last}"]), names)
    ids = run["tokens"].top_id.sel(prompt=0, boundary=2, top=0).values[: len(run.prompts[0])]
    assert [str(one) for one in names["found"]] == [loaded.tokenizer.decode([one]) for one in ids]


def test_presets_name_known_measures() -> None:
    assert {m for preset in PRESETS.values() for m in preset.measures} <= set(MEASURES)
    assert {m for preset in PRESETS.values() for m in preset.options} <= set(MEASURES)
