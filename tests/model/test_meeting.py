"""How the processes of a model find each other, and what they say where they do not."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from torch.distributed import TCPStore

from bathyscope.errors import ModelError
from bathyscope.model import meeting


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
        meeting.open_group()


def test_a_rank_that_meets_a_stranger_is_told_so_before_one_that_waits_for_rank_0(
    launched: pytest.MonkeyPatch, stranger: int
) -> None:
    launched.setenv("RANK", "1")
    launched.setattr(meeting, "_ANSWER", 0.5)
    with pytest.raises(ModelError) as caught:
        meeting.open_group()
    assert str(caught.value).startswith(
        f"The processes cannot find each other (rank 1 had no answer from 127.0.0.1:{stranger} within 0 s, so that "
        "what listens there is not rank 0). torchrun sets MASTER_ADDR and MASTER_PORT; is that port in use"
    )


@pytest.fixture
def free(launched: pytest.MonkeyPatch) -> int:
    """A port at which nothing listens, where this process is to meet as rank 1."""
    launched.setenv("RANK", "1")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    launched.setenv("MASTER_PORT", str(port))
    return port


def store_at(port: int) -> Any:
    """The store of a rank 0."""
    return TCPStore("127.0.0.1", port, 2, True, timedelta(seconds=60), wait_for_workers=False)


def test_a_rank_0_that_begins_late_is_waited_for(launched: pytest.MonkeyPatch, free: int) -> None:
    """However often nothing listened there before: the seconds for an answer begin when something does."""
    stores: list[Any] = []
    tried: list[OSError] = []
    connect = socket.create_connection

    def counted(*arguments: Any) -> socket.socket:
        try:
            return connect(*arguments)
        except OSError as error:
            tried.append(error)
            if len(tried) == 3:
                stores.append(store_at(free))
            raise

    launched.setattr(meeting, "_AGAIN", 0.0)
    launched.setattr(socket, "create_connection", counted)
    met = meeting._meet()
    assert len(tried) == 3
    met.set("word", "said")
    assert stores[0].get("word") == b"said"


def test_nobody_at_the_address_is_said(launched: pytest.MonkeyPatch, free: int) -> None:
    launched.setattr(meeting, "_MEETING", 0.0)
    with pytest.raises(ModelError, match=rf"nothing listened at 127.0.0.1:{free} within 0 s .*rank 0 was not started"):
        meeting.open_group()


def test_a_store_of_another_program_is_refused(launched: pytest.MonkeyPatch, free: int) -> None:
    """One at which a process of this rank has been, or to which no rank 0 of these processes comes."""
    store = store_at(free)
    launched.setattr(meeting, "_MEETING", 0.5)
    with pytest.raises(ModelError, match=r"cannot find each other \(.*rank-0"):
        meeting.open_group()
    with pytest.raises(ModelError, match=rf"rank 1 is there already at 127.0.0.1:{free}, where another program meets"):
        meeting.open_group()
    del store
