"""``bathyscope show``: every format says what the run's own arrays say."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from support import waves
from support.synthetic import in_books, synthetic_run

import bathyscope
from bathyscope import OptionError
from bathyscope.cli import main
from bathyscope.model.bundled import model_path
from bathyscope.runs.opening import open_run
from bathyscope.statistics.bootstrap import mean_interval
from bathyscope.statistics.sampling import Sampling


class Terminal(io.StringIO):
    """Standard output as a person sees it."""

    def isatty(self) -> bool:
        return True


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["show", *arguments]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_the_contents_are_listed_in_every_format(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = open_run(run_folder)
    wanted = {(measure, str(name)) for measure in run.measures for name in run[measure].data_vars}
    rows = json.loads(printed(capsys, str(run_folder), "--format", "json"))
    assert {(row["measure"], row["variable"]) for row in rows} == wanted
    effect = next(row for row in rows if row["variable"] == "effect_future")
    assert effect["dimensions"] == "prompt × part × reduction × skipped × block"
    assert effect["units"] == "1"
    rows = list(csv.DictReader(io.StringIO(printed(capsys, str(run_folder), "--format", "csv"))))
    assert {(row["measure"], row["variable"]) for row in rows} == wanted
    table = printed(capsys, str(run_folder))
    assert run.caption()[:20] in table
    assert [name for _, name in wanted if name not in table] == []


def test_json_rows_are_the_arrays_with_null_for_nan(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, str(run_folder), "--measure", "skip", "--raw", "--format", "json")
    rows = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
    future = open_run(run_folder)["skip"]["effect_future"]
    chosen = [row for row in rows if row["prompt_id"] == "p2" and row["effect_future"] is not None]
    # the third prompt has no token to sample, so that all its future effects are missing
    assert np.isnan(future.values[2]).all()
    assert chosen == []
    found = {
        (row["reduction"], row["skipped"], row["block"]): row["effect_future"]
        for row in rows
        if row["prompt_id"] == "p0" and row["reduction"] is not None and row["block"] is not None
    }
    assert found[("max", 1, 3)] == float(future.isel(prompt=0).sel(reduction="max", part="block").values[1, 3])


def test_csv_has_empty_cells_for_nan(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, str(run_folder), "--measure", "effective_depth", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    depth = open_run(run_folder)["effective_depth"]["depth"]
    assert [row["estimator"] for row in rows] == list(depth["estimator"].values)
    for row, value in zip(rows, depth.values):
        assert row["depth"] == "" if np.isnan(value) else float(row["depth"]) == value


def test_the_python_call_gives_the_same_rows(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, str(run_folder), "--format", "csv") == bathyscope.show(run_folder).to_csv(index=False)
    lens = printed(capsys, str(run_folder), "--measure", "lens", "--format", "csv")
    assert lens == bathyscope.show(open_run(run_folder), "lens").to_csv(index=False)
    raw = printed(capsys, str(run_folder), "--measure", "lens", "--raw", "--format", "csv")
    assert raw == open_run(run_folder).to_dataframe("lens").to_csv(index=False)


def test_a_measure_is_summed_up_by_block(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where there were 1,349 raw rows of residual, a mean with its interval and a bar for each block."""
    run = open_run(run_folder)
    rows = json.loads(printed(capsys, str(run_folder), "--measure", "residual", "--format", "json"))
    wanted = run["residual"]["norm_block"]
    found = {row["place"]: row for row in rows if row["variable"] == "norm_block"}
    assert list(found) == wanted.block.values.tolist()
    for place, row in found.items():
        own = wanted.sel(block=place).values
        low, high = mean_interval(own, Sampling(seed=run.identity.seed))
        assert [row["mean"], row["ci_low"], row["ci_high"]] == pytest.approx([own.mean(), low, high], rel=1e-9)
    assert {row["what"] for row in rows if row["variable"] == "largest"} == {"largest activation"}
    text = printed(capsys, str(run_folder), "--measure", "residual")
    table = text.split("norm of the block contribution (mean over tokens)\n")[1].split("norm of")[0].splitlines()
    bars = {line.split()[0]: line.count("█") for line in table if "█" in line}
    assert table[0].split()[:2] == ["Place", "Mean"]
    at_boundaries = printed(capsys, str(run_folder), "--measure", "lens").split("entropy", 1)[1].splitlines()[1]
    assert at_boundaries.split()[:2] == ["Boundary", "Mean"]
    largest = max(found, key=lambda place: found[place]["mean"])
    assert bars[str(largest)] == max(bars.values()) == 24
    assert len(text.splitlines()) < 600
    skip = bathyscope.show(run, "skip")
    assert "part block, reduction p95" in " ".join(skip["what"])


def test_what_has_no_value_is_a_dash(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No block stands before block 0, so it receives nothing from earlier ones."""
    text = printed(capsys, str(run_folder), "--measure", "skip")
    table = text.split("influence that earlier blocks have on a block, at all tokens")[1].splitlines()
    assert next(line.split()[:2] for line in table if line.split()[:1] == ["0"]) == ["0", "–"]
    assert "nan" not in text


def test_tables(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "centre of mass" in printed(capsys, str(run_folder), "--measure", "effective_depth")
    lens = printed(capsys, str(run_folder), "--measure", "lens", "--raw").splitlines()
    # three prompts × six boundaries, four of k for hits, and the depths of each prompt, below the headings
    assert len(lens) == 1 + 3 * 6 + 3 * 6 * 4 + 3
    assert "kl_lens_final" in lens[0]


def test_the_verdict_comes_first(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(run_folder)]) == 0
    run = bathyscope.open(run_folder)
    assert capsys.readouterr().out.startswith("\n".join([run.verdict.text, *run.verdict.details, run.caption(), ""]))
    assert all(html.escape(detail) in run._repr_html_() for detail in run.verdict.details)
    assert repr(run).startswith(f"<Run {run.verdict.text} ")
    assert html.escape(run.verdict.text, quote=False) in html.unescape(run._repr_html_())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--measure", "verdict"], "The prompts of this run have no label 'book'"),
        (["--measure", "lens"], "The prompts of this run have no label 'book'"),
        ([], "cluster='book' (--cluster) applies to intervals, and a list has none. Also name a measure"),
        (["--measure", "lens", "--raw"], "cluster='book' (--cluster) applies to intervals, and raw values have none"),
    ],
)
def test_a_cluster_of_nothing_is_refused(
    arguments: list[str], said: str, run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", str(run_folder), *arguments, "--cluster", "book"]) == 2
    assert said in capsys.readouterr().err


def test_intervals_resample_clusters(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    run = in_books(synthetic_run(4, prompts=7), "aabbbca")
    monkeypatch.setattr(bathyscope, "open", lambda path, *, partial: run)
    found = bathyscope.show(run, "drop", cluster="book").set_index(["variable", "place"]).loc[("kl", 1)]
    member = np.array([0, 0, 1, 1, 1, 2, 0])
    wanted = mean_interval(run["drop"].kl.values[:, 1], Sampling(cluster=member))
    assert (found["ci_low"], found["ci_high"]) == pytest.approx(wanted)
    assert wanted != pytest.approx(mean_interval(run["drop"].kl.values[:, 1]), rel=1e-3)
    told = printed(capsys, "runs/books", "--measure", "drop", "--cluster", "book")
    assert f"{wanted.low:.4g} to {wanted.high:.4g}" in told
    assert told.endswith("Intervals resample clusters of prompts by book.\n")
    assert printed(capsys, "runs/books", "--measure", "drop").endswith("Intervals resample prompts.\n")
    assert main(["show", "runs/books", "--measure", "effective_depth", "--cluster", "book"]) == 2
    said = "cannot change the intervals of effective_depth, which its survey computed. Survey again with "
    assert f"{said}effective_depth={{'cluster': 'book'}} (--effective_depth.cluster book)" in capsys.readouterr().err


def test_the_readings_behind_the_verdict(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(run_folder), "--measure", "verdict", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows == bathyscope.open(run_folder).verdict.rows()
    assert main(["show", str(run_folder), "--measure", "verdict"]) == 0
    shown = capsys.readouterr().out.splitlines()
    verdict = bathyscope.open(run_folder).verdict
    assert shown[0] == verdict.text
    assert next(line for line in shown if line.startswith("readable")).split()[1] == f"{verdict.readable.value:.3g}"
    assert [line.partition(":")[0] for line in shown[-3:]] == ["readable", "own", "later"]


def test_bars_are_as_long_as_the_terminal_has_room(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", out := Terminal())
    for columns in (120, 40):
        monkeypatch.setenv("COLUMNS", str(columns))
        out.truncate(0)
        assert main(["show", str(run_folder), "--measure", "lens", "--variables", "entropy"]) == 0
        lines = out.getvalue().splitlines()
        assert max(line.count("█") for line in lines) == (24 if columns == 120 else 6)
        assert [line for line in lines if line.strip().startswith("█")] == []  # none goes on in the next line


def test_wrong_runs_and_measures(run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(run_folder), "--measure", "lenz"]) == 2
    assert "Did you mean 'lens'?" in capsys.readouterr().err
    assert main(["show", str(run_folder), "--raw"]) == 2
    assert "(--raw) shows the values of one measure. Name it with measure= (--measure)" in capsys.readouterr().err
    with pytest.raises(OptionError, match=r"^raw=True \(--raw\) shows the values of one measure"):
        bathyscope.show(run_folder, "verdict", raw=True)
    assert main(["show", str(tmp_path)]) == 5
    assert "There is no run in" in capsys.readouterr().err


def test_an_unfinished_run_is_shown_on_request(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "unfinished"
    shutil.copytree(run_folder, copy)
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["record"]["finished"] = None
    (copy / "manifest.json").write_text(json.dumps(manifest))
    assert main(["show", str(copy)]) == 5
    assert "is not finished" in capsys.readouterr().err
    rows = json.loads(printed(capsys, str(copy), "--partial", "--format", "json"))
    assert "effective_depth" not in {row["measure"] for row in rows}


def test_a_part_of_a_run_is_shown(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = open_run(run_folder)
    lens = run["lens"]
    arguments = ("--measure", "lens", "--prompts", "1-2", "--variables", "kl_final_lens", "--blocks", "0,2")
    assert main(["show", str(run_folder), *arguments, "--format", "json"]) == 0
    said = capsys.readouterr()
    assert said.err.startswith("warning: Of all prompts together, and so not of some of them: ")
    rows = json.loads(said.out)
    assert {row["place"] for row in rows} == {0, 2}
    with pytest.warns(UserWarning, match="Of all prompts together"):
        raw = bathyscope.show(run, "lens", prompts="1-2", variables="kl_final_lens", blocks="0,2", raw=True)
    values = lens["kl_final_lens"].isel(prompt=[1, 2]).sel(boundary=[0, 2])
    assert sorted(raw["kl_final_lens"]) == sorted(values.values.ravel().tolist())
    with pytest.warns(UserWarning, match="Of all prompts together"):
        by_id = bathyscope.show(run, "lens", prompts=run.prompts.names[1:3], variables=["kl_final_lens"], blocks=[0, 2])
    assert by_id["mean"].tolist() == [row["mean"] for row in rows]


@pytest.mark.parametrize(
    ("selected", "message"),
    [
        ({"prompts": "p77"}, "No prompt of this run is 'p77'"),
        ({"prompts": "0-99"}, "Name prompts by number"),
        ({"variables": "kl_final_lenz"}, "Did you mean 'kl_final_lens'"),
        ({"blocks": "first"}, "blocks='first' is no number of a block"),
    ],
)
def test_what_is_not_there_cannot_be_selected(selected: dict[str, str], message: str, run_folder: Path) -> None:
    with pytest.raises(bathyscope.OptionError, match=message):
        bathyscope.show(run_folder, "lens", **selected)


def test_the_steps_of_a_course_without_its_file_are_named(run_folder: Path, tmp_path: Path) -> None:
    for step in (10, 20):
        shutil.copytree(run_folder, tmp_path / "course" / f"step-{step:08d}")
    words = r"It holds step-00000010 and step-00000020, as a course does; its course\.json is missing"
    with pytest.raises(bathyscope.StoreError, match=words):
        bathyscope.open(tmp_path / "course")


def test_a_manifest_of_another_form_is_said_to_be_none_of_a_run(run_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(run_folder, tmp_path / "run")
    (tmp_path / "run" / "manifest.json").write_text("[1, 2]")
    words = r"manifest\.json' is not a readable manifest of a run \(it holds a list, and no object\)\. Restore"
    with pytest.raises(bathyscope.StoreError, match=words):
        bathyscope.open(tmp_path / "run")


def test_a_part_of_a_run_names_the_run(run_folder: Path) -> None:
    part = next(run_folder.glob("shard-*.nc"))
    with pytest.raises(
        bathyscope.StoreError, match=rf"is a part of the run in {re.escape(repr(str(run_folder)))}; open"
    ):
        bathyscope.open(part)


@pytest.mark.parametrize("measure", ["effective_depth", "noise"])
@pytest.mark.parametrize("raw", [False, True])
def test_what_has_no_blocks_is_not_shown_for_some_of_them(
    measure: str, raw: bool, run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = rf"{measure} has no values by block, so that blocks= \(--blocks\) would change nothing. Leave it out\."
    with pytest.raises(bathyscope.OptionError, match=words):
        bathyscope.show(run_folder, measure, blocks="0-1", raw=raw)
    flags = ["--raw"] if raw else []
    assert main(["show", str(run_folder), "--measure", measure, "--blocks", "0-1", *flags]) == 2
    assert f"{measure} has no values by block" in capsys.readouterr().err


def test_what_is_of_all_prompts_is_no_part_of_some(run_folder: Path) -> None:
    run = open_run(run_folder)
    with pytest.warns(UserWarning, match="Of all prompts together, and so not of some of them: .*effective_depth"):
        some = run.select(prompts=[0])
    assert "effective_depth" not in some
    assert [prompt.id for prompt in some.prompts] == [run.prompts[0].id]
    assert "1 of " in some.caption()


def test_csv_is_exact_unless_it_is_to_be_opened_in_a_spreadsheet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts = [bathyscope.Prompt(ids=[3, 4, n], id=name) for n, name in enumerate(("=1+1", "-2", "plain"), 5)]
    bathyscope.survey(waves.loaded("llama"), prompts, ["lens"], tmp_path / "run", progress=False)
    asked = (str(tmp_path / "run"), "--measure", "lens", "--raw", "--format", "csv")
    before, after = [
        list(csv.DictReader(io.StringIO(printed(capsys, *asked, *more)))) for more in ((), ("--safe-csv",))
    ]
    assert {row["prompt_id"] for row in before} == {"=1+1", "-2", "plain"}
    assert {row["prompt_id"] for row in after} == {"'=1+1", "'-2", "plain"}
    numbers = [name for name in before[0] if name != "prompt_id"]
    assert [[row[name] for name in numbers] for row in after] == [[row[name] for name in numbers] for row in before]
    assert "=1+1" in {row["prompt_id"] for row in json.loads(printed(capsys, *asked[:-1], "json", "--safe-csv"))}


@pytest.mark.parametrize("kind", ["badge", "card"])
def test_a_badge_and_a_card_are_what_the_python_calls_give(
    kind: str, run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    verb = getattr(bathyscope, kind)
    run = open_run(run_folder)
    assert printed(capsys, str(run_folder), "--format", kind) == f"{verb(run)}\n"
    with pytest.warns(UserWarning, match="Of all prompts together"):
        some = run.select(prompts="0-1")
    assert verb(some) != verb(run)
    assert main(["show", str(run_folder), "--format", kind, "--prompts", "0-1"]) == 0
    assert capsys.readouterr().out == f"{verb(some)}\n"
    name = {"badge": "depth.svg", "card": "depth.md"}[kind]
    assert main(["show", str(run_folder), "--format", kind, "--out", name]) == 0
    assert Path(name).read_text(encoding="utf-8") == verb(run, tmp_path / "again" / name)
    picture = {"badge": "", "card": " and depth.svg"}[kind]
    assert capsys.readouterr() == ("", f"Written: {name}{picture}\n")
    assert {path.name for path in tmp_path.glob("depth.*")} == {name, "depth.svg"}


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--format", "card", "--measure", "skip"], 2, "are of tables; leave them out with --format card."),
        (["--format", "badge", "--cluster", "document"], 2, "are of tables; leave them out with --format badge."),
        (["--format", "badge", "--raw"], 2, "are of tables; leave them out with --format badge."),
        (
            ["--out", "x.svg"],
            2,
            "--out is the file of a badge or a card (--format); send a table to a file with > FILE",
        ),
        (["--format", "csv", "--out", "x.csv"], 2, "--out is the file of a badge or a card"),
        (["--format", "card", "--out", "x.svg"], 2, "out='x.svg' is not the name of a Markdown file"),
        (["--format", "badge", "--out", "x.md"], 2, "out='x.md' is not the name of an SVG file"),
        (["--format", "card", "--blocks", "0-1"], 2, "Pictures are of the whole depth"),
        (["--format", "card", "--variables", "kl"], 2, "needs"),
    ],
)
def test_a_badge_and_a_card_take_no_options_of_tables(
    options: list[str],
    code: int,
    said: str,
    run_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["show", str(run_folder), *options]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert not list(tmp_path.iterdir())


def test_what_is_no_run_has_no_badge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for kind in ("badge", "card"):
        assert main(["show", str(tmp_path), "--format", kind]) == 5
        assert "There is no run in" in capsys.readouterr().err


def test_values_of_tokens_say_which_command_shows_their_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The advised command runs as it stands and writes the picture; formats for programs have no such line."""
    monkeypatch.chdir(tmp_path)
    model = bathyscope.load(model_path())
    bathyscope.survey(model, ["Once upon a time", "The dog ran"], ["tokens"], out="my run", progress=False)
    text = printed(capsys, "my run", "--measure", "tokens")
    (command,) = re.findall(r"as a picture: bathyscope (.*)$", text, re.MULTILINE)
    assert main(shlex.split(command)) == 0
    assert Path("words.png").stat().st_size > 1000
    capsys.readouterr()
    assert "picture" not in printed(capsys, "my run", "--measure", "tokens", "--format", "csv")
