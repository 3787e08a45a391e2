"""A model over ranks: the numbers of the whole one, and one end for all whatever ends one of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import rank_faults, zoo
from support.on_ranks import Ended, Processes, launch, require_done
from support.rank_matrix import CLOSE
from support.rank_outcomes import Outcome

import bathyscope
from bathyscope.core.atomic import PARTIAL

PROMPTS = [[5 + n, 6, 7, 8, 9, 10, 11 + n, 12, 13] for n in range(4)]
MEASURES = "residual,lens,attention_locality"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a tiny Llama and its prompts."""
    zoo.entry("llama").build().save_pretrained(tmp_path / "model")
    lines = [json.dumps({"ids": ids}) for ids in PROMPTS]
    (tmp_path / "p.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path


def outcomes(path: Path) -> dict[str, Outcome]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return {outcome.what: outcome for outcome in (Outcome(**json.loads(line)) for line in lines)}


def test_two_ranks_give_what_one_process_gives(place: Path) -> None:
    """Heads of both ranks, neurons of blocks that are put together, whole hashes: the quick part of the matrix."""
    only = ["residual", "attention_locality", "neurons"]
    table = place / "table.jsonl"
    require_done(launch(2, "rank_matrix:examine", ["llama"], 2, str(place), str(table), only, folder=place))
    assert {what: outcome.outcome for what, outcome in outcomes(table).items()} == {
        "load": "equal",
        "residual": "right",
        "attention_locality": "right",
        "neurons": "equal",
    }


def survey(
    place: Path,
    fault: str = "none",
    at: int = 0,
    *,
    ranks: int = 2,
    by_rank: dict[int, dict[int, Any]] | None = None,
    more: tuple[str, ...] = (),
) -> list[Ended]:
    """A survey by the command line on all ranks, to one of which something happens.

    Args:
        by_rank: arguments of some ranks, by their places, that are others than rank 0's.
        more: further words of the command.
    """
    arguments = [str(place / "model"), str(place / "p.jsonl"), str(place / "run"), fault, at, *more]
    changed = {rank: _replaced(arguments, other) for rank, other in (by_rank or {}).items()}
    return Processes(ranks, "rank_faults:survey", *arguments, folder=place, by_rank=changed).wait()


def _replaced(arguments: list[Any], others: dict[int, Any]) -> list[Any]:
    return [others.get(number, value) for number, value in enumerate(arguments)]


def messages(ended: list[Ended]) -> list[str]:
    """What all ranks together said, without warnings."""
    lines = [line for one in ended for line in one.err.splitlines() if line.strip()]
    return [line for line in lines if not line.startswith("warning:")]


def assert_nothing_half_written(run: Path, shards: int | None = None) -> None:
    assert not [path for path in run.rglob("*") if path.name.startswith(PARTIAL)]
    part = bathyscope.open(run, partial=True)
    if shards is not None:
        assert len(part.manifest["record"]["shards"]) == shards


def survey_alone(place: Path, out: Path, **options: Any) -> bathyscope.Run:
    """The same survey by this process."""
    model, prompts = str(place / "model"), str(place / "p.jsonl")
    return bathyscope.survey(model, prompts, MEASURES, out, batch_tokens=16, progress=False, **options)


def assert_same_as_whole(place: Path, run: bathyscope.Run) -> None:
    whole = survey_alone(place, place / "whole")
    assert run.identity == whole.identity
    for name in MEASURES.split(","):
        for variable, values in whole[name].data_vars.items():
            if values.dtype.kind == "f":
                np.testing.assert_allclose(run[name][variable], values, rtol=CLOSE, atol=CLOSE, err_msg=str(variable))


@pytest.mark.contract
@pytest.mark.filterwarnings("ignore:attention_locality. .* too short")
def test_a_killed_rank_ends_all_and_one_process_goes_on(place: Path) -> None:
    """SIGKILL in block 2 of the second shard: one message, the first shard whole, and one process ends the run."""
    ended = survey(place, "killed", 1)
    assert [one.code for one in ended] == [1, -9]
    assert messages(ended) == [
        "error: Rank 1 was ended from outside (killed, or out of memory), and the others cannot go on without its part "
        "of the model."
    ]
    assert_nothing_half_written(place / "run", shards=1)
    run = survey_alone(place, place / "run")
    assert run.manifest["record"]["notes"]["ranks"] == [1, 2]
    assert_same_as_whole(place, run)


@pytest.mark.each
@pytest.mark.filterwarnings("ignore:attention_locality. .* too short")
@pytest.mark.parametrize(
    ("fault", "at", "codes", "message"),
    [
        ("killed", 0, (-9, 1), "error: Rank 0 was ended from outside (killed, or out of memory), and the others "),
        ("raises", 1, (1, 1), "error: Rank 1: RuntimeError: a block of this rank has failed"),
        ("interrupted", 1, (130, 130), "Interrupted"),
        ("interrupted", 0, (130, 130), "Interrupted"),
        ("terminated", 1, (130, 130), "Interrupted"),
        ("terminated", 0, (130, 130), "Interrupted"),
        ("full disk", 0, (5, 5), "error: Writing shard 1 (prompts 1 to 1) to "),
    ],
)
def test_whatever_ends_one_rank_ends_all(
    place: Path, fault: str, at: int, codes: tuple[int, int], message: str
) -> None:
    ended = survey(place, fault, at)
    assert tuple(one.code for one in ended) == codes, [one.err for one in ended]
    (said,) = messages(ended)
    assert said.startswith(message)
    assert all(not one.out for one in ended)
    assert_nothing_half_written(place / "run", shards=1)
    run = survey_alone(place, place / "run")
    assert run.manifest["record"]["notes"]["ranks"] == [1, 2]
    assert_same_as_whole(place, run)


@pytest.mark.filterwarnings("ignore:attention_locality. .* too short")
def test_a_run_of_one_process_is_ended_by_two_ranks(place: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        rank_faults.FAULTS["raises"](patch)
        with pytest.raises(RuntimeError, match="a block of this rank has failed"):
            survey_alone(place, place / "run")
    assert_nothing_half_written(place / "run", shards=1)
    require_done(survey(place))
    run = bathyscope.open(place / "run")
    assert run.manifest["record"]["notes"]["ranks"] == [1, 2]
    assert_same_as_whole(place, run)


@pytest.mark.filterwarnings("ignore:attention_locality. .* too short")
def test_parts_of_ranks_and_of_one_process_are_joined(place: Path) -> None:
    """The joined run says over how many ranks its parts were computed, in whatever order they are given."""
    require_done(survey(place, more=("--part", "1/2")))
    survey_alone(place, place / "other", part="2/2")
    parts = [place / "other", place / "run"]
    for order, out in ((parts, place / "joined"), (parts[::-1], place / "again")):
        run = bathyscope.join(order, out)
        assert run.manifest["record"]["notes"]["ranks"] == [1, 2]
    assert_same_as_whole(place, run)


@pytest.mark.thorough
def test_a_run_of_two_ranks_is_ended_by_four(place: Path) -> None:
    config = zoo.entry("llama").config()
    config.num_key_value_heads = 4
    type(zoo.build("llama"))(config).save_pretrained(place / "model")
    assert [one.code for one in survey(place, "killed", 1)] == [1, -9]
    require_done(survey(place, ranks=4))
    run = bathyscope.open(place / "run")
    assert run.manifest["record"]["notes"]["ranks"] == [2, 4]
    assert_same_as_whole(place, run)


def test_ranks_with_other_prompts(place: Path) -> None:
    (place / "other.jsonl").write_text('{"ids": [5, 6, 7, 8, 9, 10, 11, 12, 14]}\n' * 4, encoding="utf-8")
    ended = survey(place, by_rank={1: {1: str(place / "other.jsonl")}})
    assert [one.code for one in ended] == [2, 2]
    assert messages(ended) == [
        "error: Rank 1 was given other prompts than rank 0, and all ranks of one model do the same work. Start all of "
        "them with one command."
    ]
    assert not (place / "run" / "manifest.json").exists()


@pytest.mark.parametrize("option", [("--call-tokens", "9", "36"), ("--memory", "1", "2"), ("--part", "1/2", "2/2")])
def test_ranks_with_other_options_of_computing(place: Path, option: tuple[str, str, str]) -> None:
    """Those too that are no part of a run's identity, since calls of other sizes are other collectives."""
    name, first, second = option
    ended = survey(place, more=(name, first), by_rank={1: {6: second}})
    assert [one.code for one in ended] == [2, 2], [one.err for one in ended]
    assert messages(ended) == [
        "error: Rank 1 was given other prompts or options than rank 0, and all ranks of one model do the same work. "
        "Start all of them with one command."
    ]
    assert not (place / "run" / "manifest.json").exists()


def test_a_rank_without_the_file(place: Path) -> None:
    ended = survey(place, by_rank={1: {1: str(place / "missing.jsonl")}})
    assert [one.code for one in ended] == [3, 3]
    (said,) = messages(ended)
    assert said.startswith("error: Rank 1: ")
    assert "missing.jsonl" in said


def test_a_rank_without_the_model(place: Path) -> None:
    ended = survey(place, by_rank={1: {0: str(place / "elsewhere")}})
    assert {one.code for one in ended} <= {2, 4}
    (said,) = messages(ended)
    assert said.startswith("error: Rank 1 ")


@pytest.mark.thorough
def test_verbs_that_work_in_one_process_say_so(place: Path) -> None:
    require_done(launch(2, "rank_verbs:call_all", str(place / "model"), str(place), folder=place))
    said = [json.loads((place / f"said-{rank}.json").read_text(encoding="utf-8")) for rank in (0, 1)]
    assert said[0] == said[1]
    assert said[0].pop("scheduled") == ""
    assert "is split over processes (tensor parallelism), and a checkpoint is copied from files" in said[0].pop(
        "export"
    )
    reason = "is split over processes (tensor parallelism), and this call works in one."
    assert [verb for verb, text in said[0].items() if reason not in text] == []
