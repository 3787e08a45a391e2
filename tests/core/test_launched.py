"""Which process this is, by what its launcher has set."""

from __future__ import annotations

from bathyscope.core.launched import launched_local_rank, launched_processes, launched_rank


def test_the_number_of_a_process_is_its_launchers() -> None:
    environment = {"RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8"}
    assert (launched_rank(environment), launched_local_rank(environment), launched_processes(environment)) == (5, 1, 8)


def test_a_process_that_was_started_alone_is_the_first_of_one() -> None:
    for environment in ({}, {"RANK": "", "WORLD_SIZE": "two"}, {"WORLD_SIZE": "0"}):
        assert (launched_rank(environment), launched_local_rank(environment)) == (0, 0)
        assert launched_processes(environment) == 1


def test_without_a_local_number_it_is_the_number_among_all() -> None:
    assert launched_local_rank({"RANK": "3", "WORLD_SIZE": "4"}) == 3
