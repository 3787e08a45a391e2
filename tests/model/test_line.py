"""The line between ranks: what one says, and that it is not there any more, is heard by all others."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from queue import Queue

import pytest

from bathyscope.errors import ModelError
from bathyscope.model.line import Line, RankEnding

TOKEN = "secret"
PATIENCE = 60.0


class Three:
    """Lines of three ranks in one process, and what each hears."""

    def __init__(self, before: list[bytes]) -> None:
        self.heard: list[Queue[RankEnding]] = [Queue() for _ in range(3)]
        self.lines = [Line(rank, self.heard[rank].put) for rank in range(3)]
        address = self.lines[0].listen("127.0.0.1")
        self.strangers = [_say(address, words) for words in before]
        accepting = threading.Thread(target=self.lines[0].accept, args=(2, TOKEN))
        accepting.start()
        for line in self.lines[1:]:
            line.connect(address, TOKEN)
        accepting.join(PATIENCE)
        assert not accepting.is_alive()

    def next_of(self, rank: int) -> RankEnding:
        """What a rank hears next."""
        return self.heard[rank].get(timeout=PATIENCE)

    def close(self, rank: int) -> None:
        """End the connections of a rank, as the system does for a process that was killed."""
        # a process that was killed has no thread that would pass on what it hears meanwhile
        peers, self.lines[rank]._peers = self.lines[rank]._peers, {}
        for peer in peers.values():
            # what the other side has closed already is closed
            with suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)


def _say(address: tuple[str, int], words: bytes) -> socket.socket:
    stranger = socket.create_connection(address, PATIENCE)
    stranger.sendall(words)
    return stranger


@pytest.fixture
def three() -> Iterator[Three]:
    ranks = Three([])
    yield ranks
    for rank in (0, 1, 2):
        ranks.close(rank)


def test_an_error_is_heard_by_all_others(three: Three) -> None:
    ending = RankEnding(1, "failed", "no such block\nand more", 4)
    three.lines[1].tell(ending)
    assert three.next_of(0) == three.next_of(2) == ending
    assert three.heard[1].empty()


def test_rank_0_tells_the_others_itself(three: Three) -> None:
    three.lines[0].tell(RankEnding(0, "interrupted", exit_code=130))
    assert [three.next_of(rank).reason for rank in (1, 2)] == ["interrupted"] * 2


@pytest.mark.parametrize("rank", [1, 2])
def test_a_rank_that_was_killed_is_lost_to_all_others(three: Three, rank: int) -> None:
    three.close(rank)
    for other in {0, 1, 2} - {rank}:
        assert three.next_of(other) == RankEnding(rank, "lost")


def test_rank_0_that_was_killed_is_lost_to_the_others(three: Three) -> None:
    three.close(0)
    assert three.next_of(1) == three.next_of(2) == RankEnding(0, "lost")


def test_a_program_that_has_ended_is_not_lost(three: Three) -> None:
    three.lines[2].tell(RankEnding(2, "left"))
    assert three.next_of(0) == three.next_of(1) == RankEnding(2, "left")
    three.close(2)
    three.close(1)
    # what comes next is the other rank: nothing more was heard of the one that had left
    assert three.next_of(0) == RankEnding(1, "lost")


def test_a_message_of_any_length_arrives(three: Three) -> None:
    three.lines[2].tell(RankEnding(2, "failed", "x" * 200_000))
    assert three.next_of(0).text == "x" * 2000


def test_strangers_are_not_let_in() -> None:
    words = [b'{"token": "other", "rank": 1}\n', b"GET / HTTP/1.1\n", b'{"token": 5}\n', b'["secret"]\n', b"x" * 3000]
    ranks = Three(words)
    ranks.lines[1].tell(RankEnding(1, "failed", "real"))
    assert ranks.next_of(0).text == "real"
    for rank in (0, 1, 2):
        ranks.close(rank)


def test_nonsense_on_a_line_is_passed_over(three: Three) -> None:
    for words in (b"\n", b"[]\n", b'{"reason": "bored", "rank": 1}\n', b'{"reason": "failed"}\n', b"\xff\xfe\n"):
        three.lines[1]._peers[0].sendall(words)
    three.lines[1].tell(RankEnding(1, "failed", "real"))
    assert three.next_of(0).text == "real"


def test_an_address_where_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = free.getsockname()
    with pytest.raises(ModelError, match=r"Rank 0 cannot be reached at 127.0.0.1:\d+ .* Do the machines reach each"):
        Line(1, print).connect(address, TOKEN)


@pytest.mark.parametrize(
    ("ending", "message"),
    [
        (RankEnding(3, "failed", "no room", 5), "Rank 3: no room"),
        (
            RankEnding(1, "failed", "Rank 1 was given other prompts than rank 0, and …", 2),
            "Rank 1 was given other prompts than rank 0, and …",
        ),
        (RankEnding(1, "interrupted"), "Interrupted."),
        (
            RankEnding(1, "left"),
            "Rank 1 ended before the others, and the others cannot go on without its part of the model.",
        ),
        (
            RankEnding(0, "lost"),
            "Rank 0 was ended from outside (killed, or out of memory), and the others cannot go on without its part of "
            "the model.",
        ),
    ],
)
def test_what_people_are_told(ending: RankEnding, message: str) -> None:
    assert ending.message == message
