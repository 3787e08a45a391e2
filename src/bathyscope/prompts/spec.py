"""The one grammar of prompt sources, as typed after ``--prompts``.

::

    source    = data set | generated | task | harness | corpus | prompt file
    data set  = NAME [":" COUNT] ["?" OPTIONS] ["@" FILE]     gsm8k:10    mquake?per_level=20&hops=2-4@rows.jsonl
    generated = NAME [":" COUNT] ["?" OPTIONS]                problems:60?steps=1-6    addition:20?digits=3
    task      = "task:" NAME [":" COUNT] ["?" OPTIONS]        task:pointer_chasing:200?hops=1-8&split=interpolate
    harness   = "lm-eval:" (TASK | FILE.yaml) [":" COUNT] ["@" FILE]    lm-eval:arc_easy:100    lm-eval:mine.yaml:20
    corpus    = FILE.txt[.gz] [":" COUNT] ["?" OPTIONS]       books.txt.gz:100?window=512    books.txt?tokens=1000000
    documents = FOLDER "/" [":" COUNT] ["?" OPTIONS]          books/:100?window=512
    prompts   = FILE.jsonl|ndjson|json[.gz] [":" COUNT] ["?" OPTIONS]    mine.jsonl    chats.ndjson:20?text=question
    table     = FILE.csv|tsv[.gz]|parquet [":" COUNT] ["?" OPTIONS]    rows.csv:50?text=question&answer=solution
    OPTIONS   = KEY "=" VALUE ("&" KEY "=" VALUE)*
    LEVELS    = NUMBER ["-" NUMBER]                           2    1-6

COUNT is always the number of prompts altogether; without it everything there is gets used. Where prompts have
levels of difficulty (``level``, ``hops``, ``steps``, ``digits``), these options choose LEVELS, levels take turns, and
``per_level`` says how many prompts of each, in place of COUNT. ``split`` chooses a split of the hub's copy, and
``max_tokens`` counts a data set's limit in the model's own tokens. A corpus is cut into windows of ``window``
tokens (default: the model's context), or into pieces of ``chars`` characters; ``limit`` keeps only its first
characters, and ``tokens`` no more prompts than have that many tokens altogether. The texts of a folder are documents,
which take turns, and so are those of a file where ``documents`` gives the line between them. A task takes ``split``
(default ``interpolate``), ``written`` (``yes`` = the steps are between question and answer), ``count`` as another way
to write COUNT, and its own options, where ``1-8`` is a pair of numbers and ``+,-`` a list. ``harness`` is a task of
lm-evaluation-harness, which has no options here. Whatever follows ``@`` is a
path, whichever characters it holds. A corpus or prompt file whose name could be read as a data set
(``gsm8k@home.txt``) is given with its folder (``./gsm8k@home.txt``).
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from bathyscope.core.contents import contents_of
from bathyscope.core.paths import similar_file
from bathyscope.core.strict import whole_number_in
from bathyscope.core.text import elided
from bathyscope.errors import PromptError, did_you_mean
from bathyscope.prompts.datasets import DataSet, data_set, names
from bathyscope.prompts.files import saved_data_set
from bathyscope.prompts.generators import GENERATORS, TASK_PREFIX, Generator
from bathyscope.prompts.harness.documents import PREFIX as HARNESS
from bathyscope.prompts.levels import DIFFICULTY_LABELS
from bathyscope.prompts.parsed_source import (
    CORPUS_SUFFIXES,
    HUB,
    LABEL,
    PROMPT_FILE_SUFFIXES,
    TABLE_SUFFIXES,
    Kind,
    SourceSpec,
)
from bathyscope.prompts.source_checks import check_combination

_FILE_OPTIONS: Mapping[Kind, tuple[str, ...]] = {
    "corpus": ("window", "chars", "limit", "tokens", "documents"),
    "prompt file": ("text", "answer", "labels"),
    "table": ("text", "answer", "labels"),
    "hub data set": ("split", "text", "answer", "labels", "config"),
    "harness task": (),
}
_TEXT_OPTIONS = ("split", "documents", "text", "answer", "labels", "config")
_NAMED = re.compile(
    r"(?P<name>(?:task:)?[A-Za-z][\w-]+)(?::(?P<count>[^?@]*))?(?:\?(?P<options>[^@]*))?(?:@(?P<path>.*))?"
)
_REST = r"(?::(?P<count>[^?]*))?(?:\?(?P<options>.*))?"
_HARNESS = re.compile(
    rf"(?P<name>{HARNESS}(?:.+?\.ya?ml|[^:?@]*))(?::(?P<count>[^?@]*))?(?:\?(?P<options>[^@]*))?(?:@(?P<path>.*))?"
)
_HUB = re.compile(rf"(?P<path>{HUB}[^:?]+){_REST}")
_PATH = re.compile(rf"(?P<path>.+?\.(?i:(?:txt|jsonl?|ndjson|csv|tsv)(?:\.gz)?|parquet)|.+?/){_REST}")


@contextmanager
def naming(source: str) -> Iterator[None]:
    """Say of which prompts an error is."""
    try:
        yield
    except PromptError as error:
        raise PromptError(f"Prompts {elided(repr(source), 60)}: {error}") from error


def parse(text: str) -> SourceSpec:
    """Parse one source; a PromptError where the text is none, or its count or options are not allowed."""
    if text.startswith("~"):
        text = os.path.expanduser(text)
    text = re.sub(r"@~(?=/)", lambda _: f"@{os.path.expanduser('~')}", text, count=1)
    with naming(text):
        return _parse(text)


def source_in(text: str) -> SourceSpec | None:
    """Return the source that a text, such as a label of data, may be; None where it is the name of something else."""
    try:
        return parse(text)
    except PromptError:
        return None


def _parse(text: str) -> SourceSpec:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise PromptError("the name is no UTF-8 text, and a run keeps it as text. Rename the file.") from error
    if not text.strip():
        raise PromptError("the text is empty; give a data set such as gsm8k:10, or a file of prompts.")
    if "://" in text.partition("?")[0]:
        raise PromptError(
            "addresses are not read. Download the file and give its path, or give a data set of the hub as "
            "hf:OWNER/NAME?split=…&text=…."
        )
    # A registered name goes before a file of that name; behind "@" everything is a path.
    named, match = _NAMED.fullmatch(text), _HUB.fullmatch(text)
    if text.startswith(HARNESS):
        named = _HARNESS.fullmatch(text)
    is_registered = match is None and named is not None and _is_registered(named["name"])
    if is_registered:
        match = named
    elif match is None and (named is None or named["path"] is None):
        match = _PATH.fullmatch(text)
    if match is None:
        raise PromptError(_not_a_source(text, named["name"] if named else text, (*names(), *GENERATORS)))
    count = None if match["count"] is None else _positive("the count after ':'", match["count"])
    return _with_options(SourceSpec(match["name"] if is_registered else None, count, match["path"]), match["options"])


def _taker(name: str) -> DataSet | Generator | None:
    """What takes the options of a source of this name."""
    return GENERATORS.get(name) or data_set(name)


def _is_registered(name: str) -> bool:
    """Whether a source is called by this name: a data set, a generator or a task of the harness."""
    return name.startswith(HARNESS) or _taker(name) is not None


_COUNT = re.compile(r":\d+$")
_WRITTEN = "written"
"""A source of prune alone: what the full model writes by itself."""


def _not_a_source(text: str, name: str, source_names: tuple[str, ...]) -> str:
    if contents := contents_of(name):
        return (
            f"this folder holds {contents}, not prompts. Give a data set, a file of prompts, or the folder of texts "
            "with / at its end."
        )
    if saved := saved_data_set(name):
        return saved
    path = _COUNT.sub("", text.partition("?")[0])
    if name == _WRITTEN:
        near = (
            " What a model writes itself is measured by survey --write (write=) after prompts of your own, and chooses "
            "for prune --calibration."
        )
    elif os.path.isdir(name):
        near = f" For the texts of this folder write {name}/."
    elif os.path.isfile(path):
        name, ending = path, os.path.splitext(path)[1]
        kind = f"ending in {ending}" if ending else "without an ending"
        near = (
            f" The file is there, but files {kind} are not read: save its rows in one of the formats below, or give "
            "them in Python as a frame of pandas or polars."
        )
    else:
        # a path is no misspelt name
        near = similar_file(name, (*CORPUS_SUFFIXES, *PROMPT_FILE_SUFFIXES, *TABLE_SUFFIXES)) or (
            "" if os.sep in name else did_you_mean(name, source_names)
        )
    return (
        f"{elided(repr(name), 60)} is neither a data set nor a prompt file.{near} "
        f"Allowed: {', '.join(source_names)}, {HARNESS}TASK, or a file ending in {_listed(CORPUS_SUFFIXES)} (plain "
        f"text), {_listed(PROMPT_FILE_SUFFIXES)} (one prompt a line) or {_listed(TABLE_SUFFIXES)} (a table, with "
        "?text=COLUMN); gzipped too. To measure on this very text, give a list "
        f"of strings: [{elided(repr(text), 60)}], or a file that holds it."
    )


def _listed(suffixes: Sequence[str]) -> str:
    return ", ".join(suffix for suffix in suffixes if not suffix.endswith(".gz"))


def _positive(what: str, value: str) -> int:
    number = whole_number_in(value)
    if number is None or number < 1:
        raise PromptError(f"{what} must be a whole number of at least 1, not {elided(repr(value), 40)}.")
    return number


def _levels(key: str, value: str) -> int | str:
    """One level as a number, several as their range."""
    first, dash, last = value.partition("-")
    lowest, highest = whole_number_in(first), whole_number_in(last if dash else first)
    if lowest is None or highest is None or not 1 <= lowest <= highest:
        raise PromptError(
            f"{key}= must be a whole number of at least 1, or a rising range such as 1-3, not "
            f"{elided(repr(value), 40)}."
        )
    return lowest if lowest == highest else f"{lowest}-{highest}"


def _read(key: str, value: str, name: str | None) -> int | str:
    """An option's value: levels, a text, or a number. A task's own stay as they were typed, for the task to read."""
    of_task = (name or "").startswith(TASK_PREFIX)
    if key in DIFFICULTY_LABELS and not of_task:
        return _levels(key, value)
    if (of_task and key != "count") or key in _TEXT_OPTIONS or key.startswith(LABEL):
        if not value:
            raise PromptError(f"{key}= has no value; write {key}=VALUE.")
        return value
    return _positive(f"{key}=", value)


def _with_options(spec: SourceSpec, options: str | None) -> SourceSpec:
    """``spec`` with its options checked and filled in."""
    taker = None if spec.name is None else _taker(spec.name)
    allowed = _FILE_OPTIONS[spec.kind] if taker is None else taker.options
    pairs: dict[str, int | str] = {}
    for part in [] if options is None else options.split("&"):
        key, _, value = part.partition("=")
        named = key.startswith(LABEL) and key != LABEL and "labels" in allowed
        if key not in allowed and not named:
            listed = ", ".join(f"{name}=" for name in allowed) or "none"
            whose = f"A {spec.kind} takes" if spec.name is None else f"Options of {spec.name}"
            raise PromptError(f"unknown option {key!r}.{did_you_mean(key, allowed)} {whose}: {listed}.")
        if key in pairs:
            raise PromptError(f"option {key!r} is given twice; give it once.")
        pairs[key] = _read(key, value, spec.name)
    # ``count=`` is a task's other way to write COUNT; from here on there is one.
    count = pairs.pop("count", None)
    if count is not None and spec.count is not None:
        raise PromptError(f"say how many, and once, for example {spec.name}:20.")
    spec = SourceSpec(spec.name, spec.count if count is None else int(count), spec.path, tuple(pairs.items()))
    check_combination(spec)
    if spec.name is not None and spec.name in GENERATORS:
        GENERATORS[spec.name].check(pairs)
    return spec


def with_count(source: str, count: int) -> str:
    """Return a source of the first prompts of another; the source itself where it is the name of something else."""
    spec = source_in(source)
    return source if spec is None else str(replace(spec, count=count))
