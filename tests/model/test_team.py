"""How the processes of a model find each other, and what they say where they do not."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from bathyscope.errors import ModelError
from bathyscope.model import team


@pytest.fixture
def stranger() -> Iterator[int]:
    """The port of another program, which takes connections and answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def launched(stranger: int, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Two processes, of which this is one, are to meet at that port."""
    monkeypatch.delenv("TORCHELASTIC_USE_AGENT_STORE", raising=False)
    settings = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(stranger)}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def test_rank_0_says_that_its_port_is_in_use(launched: pytest.MonkeyPatch) -> None:
    launched.setenv("RANK", "0")
    with pytest.raises(ModelError, match=r"cannot find each other \(.*address already in use.*is that port in use"):
        team.open_group()


def test_a_rank_that_meets_a_stranger_does_not_wait_for_ever(launched: pytest.MonkeyPatch) -> None:
    launched.setenv("RANK", "1")
    launched.setattr(team, "_MEETING", 0.5)
    with pytest.raises(ModelError, match=r"cannot find each other \(rank 1 had no answer from rank 0 within"):
        team.open_group()
