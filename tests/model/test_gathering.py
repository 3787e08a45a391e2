"""How processes that were started without torchrun find each other, and what they say where they do not."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from support.on_ranks import PATIENCE

import bathyscope
from bathyscope.core.launched import launched_address, start_seconds
from bathyscope.errors import MeetingError, OptionError
from bathyscope.model import gathering
from bathyscope.model.gathering import RankSearch
from bathyscope.model.line import Line, RankEnding


class Member:
    """A rank in this process, on its way to the others, and what it hears of them."""

    def __init__(self, rank: int, port: int, size: int = 2, limit: float = PATIENCE) -> None:
        self.heard: Queue[RankEnding] = Queue()
        self.line = Line(rank, self.heard.put)
        self.gathering = RankSearch(self.line, rank, size, ("127.0.0.1", port))
        self.gathering.limit = limit
        self.gathering.begin()

    def next_ending(self) -> RankEnding:
        return self.heard.get(timeout=PATIENCE)

    def die(self) -> None:
        """Close its connections, as the system does for a process that was killed."""
        self.gathering.close()
        for peer in self.line._peers.values():
            # what the other side has closed already is closed
            with suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def port() -> int:
    """A port at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        number: int = server.getsockname()[1]
    return number


@pytest.fixture
def members(port: int) -> Iterator[Callable[..., Member]]:
    """Makes ranks that meet at the port."""
    all_members: list[Member] = []

    def make(rank: int, **options: Any) -> Member:
        all_members.append(Member(rank, port, **options))
        return all_members[-1]

    yield make
    for member in all_members:
        member.die()


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What people are told while they wait."""
    texts: list[str] = []
    monkeypatch.setattr(gathering, "write_line", lambda text, values: texts.append(text))
    return texts


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Nobody is waited for long."""
    monkeypatch.setattr(gathering, "_AGAIN", 0.01)
    monkeypatch.setattr(gathering, "_ANSWER", 0.3)
    monkeypatch.setattr(gathering, "_NOTICE", 0.0)
    return monkeypatch


def refusal(member: Member) -> str:
    with pytest.raises(MeetingError) as caught:
        member.gathering.wait()
    return str(caught.value)


def test_ranks_meet_in_any_order_and_share_a_store(members: Callable[..., Member], quick: pytest.MonkeyPatch) -> None:
    """Rank 0 begins after another rank has looked for it in vain."""
    looked = threading.Event()
    connect = socket.create_connection

    def counted(*arguments: Any, **options: Any) -> socket.socket:
        try:
            return connect(*arguments, **options)
        except OSError:
            looked.set()
            raise

    quick.setattr(gathering, "_ANSWER", PATIENCE)
    quick.setattr(socket, "create_connection", counted)
    third = members(2, size=3)
    assert looked.wait(PATIENCE)
    first, second = members(0, size=3), members(1, size=3)
    stores: dict[int, Any] = {}
    threads = [
        threading.Thread(target=lambda number=number, member=member: stores.update({number: member.gathering.store()}))
        for number, member in enumerate((first, second, third))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    stores[2].set("word", "said")
    assert stores[0].get("word") == stores[1].get("word") == b"said"


def test_a_rank_that_dies_on_its_way_is_heard_by_all_that_come(members: Callable[..., Member]) -> None:
    """Long before all have met, and by one that comes later too."""
    first, second = members(0, size=3), members(1, size=3)
    second.gathering.wait()
    second.die()
    assert first.next_ending() == RankEnding(1, "lost")
    third = members(2, size=3)
    assert third.next_ending() == RankEnding(1, "lost")


def test_an_error_on_the_way_is_heard(members: Callable[..., Member]) -> None:
    first, second = members(0), members(1)
    ending = RankEnding(1, "failed", "tensor_parallel=3 was asked for", 2)
    # as a rank does that ends at once: its error waits until it can be told
    second.gathering.linger(PATIENCE)
    second.line.tell(ending)
    assert first.next_ending() == ending


def test_rank_0_says_that_its_port_is_in_use(members: Callable[..., Member], port: int) -> None:
    members(0)
    with pytest.raises(MeetingError) as caught:
        Member(0, port)
    assert str(caught.value) == (
        f"Rank 0 cannot listen at 127.0.0.1:{port} (Address already in use). Give all ranks a port that is not in use "
        "(MASTER_PORT; of torchrun --master-port)."
    )


@pytest.mark.parametrize("words", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b'{"rank": 0}\n', b"[" * 2000])
def test_a_stranger_where_rank_0_should_be(
    words: bytes, members: Callable[..., Member], quick: pytest.MonkeyPatch, port: int
) -> None:
    def answer(server: socket.socket) -> None:
        while True:
            try:
                peer, _ = server.accept()
            except OSError:
                return
            peers.append(peer)
            peer.sendall(words)

    peers: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", port)) as server:
        threading.Thread(target=answer, args=(server,), daemon=True).start()
        assert refusal(members(1)) == (
            f"Rank 1 cannot join the others: what listens at 127.0.0.1:{port} has not answered as rank 0 within 0 s."
        )
        server.shutdown(socket.SHUT_RDWR)


def test_a_rank_0_that_dies_before_it_answers(members: Callable[..., Member], port: int) -> None:
    """It was reached, and then nothing listens any more, so that nobody is waited for."""
    with socket.create_server(("127.0.0.1", port)) as server:
        second = members(1)
        peer, _ = server.accept()
    # the system closes both for a process that was killed
    peer.close()
    assert refusal(second) == (
        f"Rank 1 cannot join the others: what has listened at 127.0.0.1:{port} has ended, and gave no answer."
    )


def test_strangers_at_the_port_of_rank_0_are_no_ranks(
    members: Callable[..., Member], quick: pytest.MonkeyPatch, port: int
) -> None:
    first = members(0, limit=0.5)
    words = (b"", b"GET / HTTP/1.1\r\n\r\n", b"{}\n", b'{"rank": "1", "of": 2}\n', b"[" * 2000)
    strangers = [socket.create_connection(("127.0.0.1", port), PATIENCE) for _ in words]
    for stranger, said in zip(strangers, words, strict=True):
        stranger.sendall(said)
    assert "for rank 1 of 2 processes, not started so far. Start all ranks within" in refusal(first)


def test_nobody_where_rank_0_should_be(
    members: Callable[..., Member], quick: pytest.MonkeyPatch, port: int, lines: list[str]
) -> None:
    quick.setattr(gathering, "_ANSWER", PATIENCE)
    assert refusal(members(1, limit=0.4)) == (
        f"Rank 1 has waited 0 s for rank 0 at 127.0.0.1:{port}, where nothing answers (Connection refused). Start all "
        "ranks within that time, or give more seconds (BATHYSCOPE_START_TIMEOUT)."
    )
    (said,) = lines
    assert said.startswith(f"Rank 1 waits for rank 0 at 127.0.0.1:{port}, where nothing answers (")
    assert said.endswith(" s more (BATHYSCOPE_START_TIMEOUT sets it; Ctrl-C ends it).")


def test_rank_0_says_whom_it_waits_for(
    members: Callable[..., Member], quick: pytest.MonkeyPatch, port: int, lines: list[str]
) -> None:
    quick.setattr(gathering, "_ANSWER", PATIENCE)
    first, third = members(0, size=14, limit=90.0), members(2, size=14)
    third.gathering.wait()
    assert len(lines) <= 1
    lines.clear()
    # its own clock: as if the time were over when people have been told
    first.gathering.limit = 0.0
    assert refusal(first).startswith(
        f"Rank 0 has waited 0 s at 127.0.0.1:{port} for rank 1, 3, 4, 5, 6, 7, 8, 9 … of 14 "
    )
    assert lines == [
        f"Rank 0 waits at 127.0.0.1:{port} for rank 1, 3, 4, 5, 6, 7, 8, 9 … of 14 processes, not started so far: 0 s "
        "more (BATHYSCOPE_START_TIMEOUT sets it; Ctrl-C ends it)."
    ]


def test_a_rank_that_is_there_already_is_refused(members: Callable[..., Member], port: int) -> None:
    members(0, size=3)
    members(1, size=3).gathering.wait()
    assert refusal(members(1, size=3)) == (
        f"Rank 1 cannot join the others: another process of this rank is at 127.0.0.1:{port}, of this program or of "
        "another one."
    )


def test_a_rank_of_another_number_is_refused(members: Callable[..., Member], port: int) -> None:
    members(0)
    assert refusal(members(1, size=4)) == (
        f"Rank 1 cannot join the others: it was started as one of 4 processes, and rank 0 at 127.0.0.1:{port} as one "
        "of 2."
    )


@pytest.mark.parametrize("text", ["soon", "-1", "0", "nan", "inf", "1e9"])
def test_what_is_no_number_of_seconds(text: str) -> None:
    with pytest.raises(OptionError) as caught:
        start_seconds({"BATHYSCOPE_START_TIMEOUT": text})
    assert str(caught.value) == (
        f"BATHYSCOPE_START_TIMEOUT={text} is no number of seconds from 1 to 1000000; give one, such as 120, or leave "
        "it out (600)."
    )


def test_seconds_to_start() -> None:
    assert [start_seconds({"BATHYSCOPE_START_TIMEOUT": text}) for text in ("", "90", " 1.5 ")] == [600, 90, 1.5]
    assert start_seconds({}) == 600


@pytest.mark.parametrize(
    ("changes", "address"),
    [
        ({}, ("node7", 29500)),
        ({"MASTER_PORT": ""}, None),
        ({"MASTER_PORT": "70000"}, None),
        ({"MASTER_ADDR": ""}, None),
        ({"TORCHELASTIC_USE_AGENT_STORE": "True"}, None),
        ({"TORCHELASTIC_USE_AGENT_STORE": "False"}, ("node7", 29500)),
    ],
)
def test_where_rank_0_is(changes: dict[str, str], address: tuple[str, int] | None) -> None:
    assert launched_address({"MASTER_ADDR": "node7", "MASTER_PORT": "29500"} | changes) == address


NEVER_IMPORTED = """
import time
from bathyscope.model import ranks

(team,) = ranks._TEAM
while not team._line.ranks:
    time.sleep(0.01)
print("met", flush=True)
while True:
    try:
        time.sleep(100_000)
    except BaseException:
        pass
"""
"""A torch that is imported for ever, whatever is raised, and says when this rank and the other have met."""


@pytest.fixture
def launched(tmp_path: Path, port: int) -> Iterator[Callable[[int, Sequence[int]], list[subprocess.Popen[str]]]]:
    """Starts by hand some of so many ranks of a command, all of which import torch."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(NEVER_IMPORTED, encoding="utf-8")
    source = Path(bathyscope.__file__).parents[1]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TORCHELASTIC")}
    environment |= {"PYTHONPATH": os.pathsep.join(map(str, (tmp_path, source)))}
    environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    command = [sys.executable, "-m", "bathyscope", "check", "nowhere", "--tensor-parallel", "auto"]
    processes: list[subprocess.Popen[str]] = []

    def launch(size: int, ranks: Sequence[int]) -> list[subprocess.Popen[str]]:
        for rank in ranks:
            variables = environment | {"WORLD_SIZE": str(size), "RANK": str(rank)}
            processes.append(
                subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            )
        return processes

    yield launch
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("number", "at", "codes", "message"),
    [
        (signal.SIGKILL, 1, [1, -9], "error: Rank 1 was ended from outside (killed, or out of memory), and the others"),
        (signal.SIGKILL, 0, [-9, 1], "error: Rank 0 was ended from outside (killed, or out of memory), and the others"),
        (signal.SIGINT, 1, [130, 130], "Interrupted."),
        (signal.SIGTERM, 0, [130, 130], "Interrupted."),
    ],
)
def test_whatever_ends_a_rank_that_imports_ends_all(
    launched: Callable[[int, Sequence[int]], list[subprocess.Popen[str]]],
    number: signal.Signals,
    at: int,
    codes: list[int],
    message: str,
) -> None:
    importing = launched(2, (0, 1))
    assert [process.stdout.readline() for process in importing if process.stdout] == ["met\n", "met\n"]
    importing[at].send_signal(number)
    texts = [process.communicate(timeout=PATIENCE)[1] for process in importing]
    assert [process.returncode for process in importing] == codes, texts
    (said,) = [text for text in texts if text]
    assert said.startswith(message)
    assert said.count("\n") == 1


def test_ranks_that_import_end_where_rank_0_dies_before_it_answers(
    launched: Callable[[int, Sequence[int]], list[subprocess.Popen[str]]], port: int
) -> None:
    """It listens, and is killed while the others wait to be let in; that is found out while torch is imported."""
    with socket.create_server(("127.0.0.1", port)) as server:
        importing = launched(3, (1, 2))
        peers = [server.accept()[0] for _ in importing]
    for peer in peers:
        peer.close()
    texts = [process.communicate(timeout=PATIENCE)[1] for process in importing]
    assert [process.returncode for process in importing] == [1, 1], texts
    assert texts == [
        f"error: Rank 0 has ended before it answered the others: nothing listens at 127.0.0.1:{port} any more.\n",
        "",
    ]
