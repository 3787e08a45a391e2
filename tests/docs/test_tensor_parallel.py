"""The stored matrix of models over ranks: nothing in it is wrong, and it says what the code says."""

from __future__ import annotations

from pathlib import Path

import pytest
import xarray as xr
from support import zoo
from support.rank_matrix import gap_between
from support.rank_outcomes import EQUAL, REFUSED, RIGHT, Outcome

import docs.tensor_parallel as table
from bathyscope import ModelError
from bathyscope.measures.registry import MEASURES
from bathyscope.model.tensor_parallel import COMPARED, require_splittable

FACTS = ("schedule", "control shuffled_text", "control shuffled_blocks", "control untrained", "write")

COMPARED_MEASURES = 22
"""So many measures the table has of every family, at least; a new one is named below it until it is added."""


def test_every_family_is_in_the_table_and_nothing_is_wrong() -> None:
    rows = table.read_table()
    assert {(row.family, row.ranks) for row in rows} == {(f, n) for f in table.FAMILIES for n in table.RANKS}
    assert {row.outcome for row in rows} == {RIGHT, EQUAL, REFUSED}
    compared = [name for name in MEASURES if name not in table.not_compared(rows)]
    assert len(compared) >= COMPARED_MEASURES
    for family in table.FAMILIES:
        for ranks in table.RANKS:
            whats = [row.what for row in rows if (row.family, row.ranks) == (family, ranks)]
            assert whats == ["load"] or sorted(whats) == sorted(["load", *compared, *FACTS])


def test_what_is_warned_of_is_what_the_table_lacks() -> None:
    """A type counts as compared where the table has all of it, over two ranks and over four."""
    compared = {row.family for row in table.read_table() if row.what == "write"}
    assert {zoo.entry(family).config().model_type for family in compared} == COMPARED


def test_weights_have_the_hash_of_the_whole_model() -> None:
    loads = [row for row in table.read_table() if row.what == "load"]
    assert {row.outcome for row in loads} == {EQUAL, REFUSED}
    assert {row.family for row in loads if row.outcome == REFUSED} == {"gpt2"}


def test_what_is_refused_is_refused_for_the_reason_in_the_table(tmp_path: Path) -> None:
    zoo.entry("gpt2").config().save_pretrained(tmp_path / "gpt2-2")
    with pytest.raises(ModelError) as caught:
        require_splittable("gpt2-2", str(tmp_path / "gpt2-2"), None, False, 2)
    stored = next(row for row in table.read_table() if (row.family, row.ranks, row.what) == ("gpt2", 2, "load"))
    assert stored.note == str(caught.value)


def patched(log_p: float, recovered: float) -> dict[str, xr.Dataset]:
    """What patching of one prompt gives whose own answer has a log-probability, and all others one of 0."""
    table = xr.Dataset({"log_p": (("prompt", "read_in", "answer"), [[[log_p, 0.0], [0.0, 0.0]]])})
    return {"patching": table.assign(recovered_all=(("prompt", "boundary"), [[1.0, recovered]]))}


def test_a_quotient_by_almost_nothing_is_compared_by_what_is_divided() -> None:
    """Rounding of 1e-6 nats, over a way of 2e-3, is a gap of 5e-4 that no sum over ranks has to answer for."""
    whole = patched(2e-3, 1.0)
    assert gap_between(patched(2e-3, 1.0005), whole)[0] == pytest.approx(1e-6)
    # the way itself is off by rounding too, and both quotients with it
    assert gap_between(patched(2.001e-3, 375 / 1.0005), patched(2e-3, 375))[0] == pytest.approx(1e-6)
    gap, where = gap_between(patched(0.5, 1.0005), patched(0.5, 1.0))
    assert gap == pytest.approx(2.5e-4)
    assert where == "patching.recovered_all"


@pytest.mark.thorough
@pytest.mark.parametrize(("family", "ranks"), [("gemma2", 2), ("mixtral", 2), ("ministral", 4)])
def test_what_is_stored_is_what_the_ranks_say(family: str, ranks: int) -> None:
    only = ["lens", "attention_locality", "neurons"]
    stored = {row.what: row.outcome for row in table.read_table() if (row.family, row.ranks) == (family, ranks)}
    again = {row.what: row.outcome for row in table.examine(family, ranks, only)}
    assert again == {what: stored[what] for what in ("load", *only)}


def test_the_page_has_a_row_for_each_measure_and_each_refusal() -> None:
    rows = table.read_table()
    page = table.page(rows)
    for name in MEASURES:
        assert (f"| {name} | " in page) != (name in table.not_compared(rows))
    for row in rows:
        if row.outcome == REFUSED:
            assert row.note.replace("|", " ") in page


def test_the_page_names_what_is_not_compared_yet() -> None:
    rows = table.read_table()
    missing = [name for name in MEASURES if name in ("swap", "cka") or name in table.not_compared(rows)]
    page = table.page([row for row in rows if row.what not in missing])
    assert f"Not compared over ranks yet: {', '.join(f'`{name}`' for name in missing)}." in page
    assert "| swap | " not in page


def test_a_measure_is_added_to_what_the_table_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of others stay as they are; a family that cannot be loaded gets none."""
    file = tmp_path / "table.csv"
    rows = table.read_table()
    table.write_table([row for row in rows if row.what != "swap"], file)
    asked: list[tuple[str, int, list[str] | None]] = []

    def examine(family: str, ranks: int, only: list[str] | None = None) -> list[Outcome]:
        asked.append((family, ranks, only))
        return [Outcome(family, ranks, what, RIGHT, "9e-9") for what in ("load", "swap")]

    read, write = table.read_table, table.write_table
    monkeypatch.setattr(table, "read_table", lambda: read(file))
    monkeypatch.setattr(table, "write_table", lambda outcomes: write(outcomes, file))
    monkeypatch.setattr(table, "examine", examine)
    table.main(["--measures", "swap"])
    assert asked == [(f, n, ["swap"]) for f in table.FAMILIES for n in table.RANKS if f != "gpt2"]
    joined = read(file)
    assert {row.gap for row in joined if row.what == "swap"} == {"9e-9"}
    again = [row for row in rows if row.what not in ("swap", "load")]
    assert [row for row in joined if row.what not in ("swap", "load")] == again
    with pytest.raises(SystemExit):
        table.main(["--measures", "swop"])
    of_llama = [row.what for row in joined if (row.family, row.ranks) == ("llama", 2)]
    assert of_llama.index("stages") + 1 == of_llama.index("swap") == of_llama.index("schedule") - 1
