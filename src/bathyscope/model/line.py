"""A line between the processes of one model: the end of any of them is heard by all others at once.

Collectives of torch wait for all ranks, and one that has failed never comes. So every rank holds a connection to rank
0, which passes on what it hears. A process that was killed sends nothing, but the system closes its connections.
Nothing here depends on a clock: a rank that is slow is waited for.
"""

from __future__ import annotations

import hmac
import json
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from bathyscope.errors import ModelError

_LONGEST: Final = 1 << 16
"""Letters of a message; what others send is never read without a limit."""
_CONNECTING: Final = 60.0
"""Seconds in which all ranks have to be connected; each of them has joined the process group by then."""

Reason = Literal["failed", "interrupted", "lost", "left"]
"""An error; Ctrl-C or SIGTERM; a process that ended without a word; a program that ended before the others."""


@dataclass(frozen=True)
class RankEnding:
    """How a rank ended.

    Args:
        rank: which one.
        reason: why.
        text: the message of its error; of a lost one what is known, where that is more than that it ended.
        exit_code: that its command ends with.
    """

    rank: int
    reason: Reason
    text: str = ""
    exit_code: int = 1

    @property
    def message(self) -> str:
        """One sentence for the people who wait."""
        if self.reason == "lost" and self.text:
            return self.text
        if self.reason == "failed":
            # what all ranks find out together says by itself whose it is, whichever of them is heard first
            return self.text if self.text.startswith("Rank ") else f"Rank {self.rank}: {self.text}"
        if self.reason == "interrupted":
            return "Interrupted."
        how = (
            "ended before the others" if self.reason == "left" else "was ended from outside (killed, or out of memory)"
        )
        return f"Rank {self.rank} {how}, and the others cannot go on without its part of the model."


class Line:
    """Connections of one rank to the others.

    Args:
        rank: of this process.
        hear: takes the ending of another rank, in a thread of its own.
    """

    def __init__(self, rank: int, hear: Callable[[RankEnding], None]) -> None:
        self._rank = rank
        self._hear = hear
        self._lock = threading.Lock()
        self._peers: dict[int, socket.socket] = {}
        self._left: set[int] = set()
        self._endings: list[RankEnding] = []
        self.take: Callable[[dict[str, Any]], None] = lambda record: None
        """Takes what a peer says besides its ending, in the thread of its connection."""
        self._server: socket.socket | None = None

    def listen(self, host: str) -> tuple[str, int]:
        """Open the line on rank 0; return the address for the others.

        Args:
            host: name under which the others reach this machine.
        """
        self._server = socket.create_server((host, 0))
        self._server.settimeout(_CONNECTING)
        return host, int(self._server.getsockname()[1])

    def accept(self, others: int, token: str) -> None:
        """Wait on rank 0 for all other ranks.

        Args:
            token: a secret of the process group; connections of strangers are closed.

        Raises:
            ModelError: some do not come.
        """
        assert self._server is not None
        try:
            while len(self._peers) < others:
                peer, _ = self._server.accept()
                rank = _introduced(peer, token)
                if rank is None or not self.admit(rank, peer):
                    peer.close()
        except OSError as error:
            raise ModelError(
                f"{len(self._peers) + 1} of {others + 1} processes have connected ({error}). Do the machines reach "
                "each other on all ports?"
            ) from error
        finally:
            self._server.close()

    def connect(self, address: tuple[str, int], token: str) -> None:
        """Connect another rank to rank 0.

        Raises:
            ModelError: it cannot be reached.
        """
        try:
            peer = socket.create_connection(address, _CONNECTING)
        except OSError as error:
            raise ModelError(
                f"Rank 0 cannot be reached at {address[0]}:{address[1]} ({error}). Do the machines reach each other on "
                "all ports?"
            ) from error
        send(peer, {"token": token, "rank": self._rank})
        self.admit(0, peer)

    def admit(self, rank: int, peer: socket.socket, greeting: dict[str, Any] | None = None) -> bool:
        """Take a connection for that of a rank, and listen to it from now on.

        Args:
            greeting: sent first.

        Returns:
            False where the rank is there already, and nothing was done.
        """
        with self._lock:
            if rank in self._peers:
                return False
            peer.settimeout(None)
            if greeting is not None:
                send(peer, greeting)
            # whoever ended while this rank was on its way is told to it now
            for ending in self._endings:
                send(peer, asdict(ending))
            self._peers[rank] = peer
        threading.Thread(target=self._follow, args=(rank, peer), daemon=True, name="bathyscope line").start()
        return True

    @property
    def ranks(self) -> set[int]:
        """Ranks that have a connection to this one, or had one."""
        with self._lock:
            return set(self._peers)

    def tell(self, ending: RankEnding) -> None:
        """Send an ending to all other ranks; those that are not there any more need none."""
        self._spread(ending, besides=None)

    def report(self, ending: RankEnding) -> None:
        """Take for heard what this rank has found out by itself."""
        self._hear(ending)

    def send_all(self, record: dict[str, Any]) -> None:
        """Send something else than an ending to all ranks that are connected."""
        with self._lock:
            peers = list(self._peers.values())
        for peer in peers:
            send(peer, record)

    def _follow(self, rank: int, peer: socket.socket) -> None:
        """Read what one peer says until its connection closes."""
        with peer.makefile("r", encoding="utf-8", errors="replace") as lines:
            try:
                for line in iter(lambda: lines.readline(_LONGEST), ""):
                    record = _record(line.encode())
                    ending = _ending(record)
                    if ending is None:
                        self.take(record)
                        continue
                    if ending.reason == "left":
                        self._left.add(ending.rank)
                    self._pass_on(ending, besides=rank)
                    self._hear(ending)
            except OSError:
                # a connection that is reset has closed as well
                pass
        if rank not in self._left:
            ending = RankEnding(rank, "lost")
            self._pass_on(ending, besides=rank)
            self._hear(ending)

    def _pass_on(self, ending: RankEnding, besides: int) -> None:
        """Let rank 0 tell the other ranks, which have no connections to each other."""
        if self._rank == 0:
            self._spread(ending, besides)

    def _spread(self, ending: RankEnding, besides: int | None) -> None:
        with self._lock:
            self._endings.append(ending)
            peers = [peer for rank, peer in self._peers.items() if rank != besides]
        for peer in peers:
            send(peer, asdict(ending))


def read_record(peer: socket.socket, seconds: float) -> dict[str, Any]:
    """Return what whoever has connected says in its first line; empty where that is nothing or no record.

    Raises:
        OSError: it says nothing for so long, or the connection broke.
    """
    peer.settimeout(seconds)
    # read byte by byte, so that nothing behind the line is taken from who reads on
    line = b""
    while not line.endswith(b"\n") and len(line) < 1024:
        byte = peer.recv(1)
        if not byte:
            return {}
        line += byte
    return _record(line)


def _introduced(peer: socket.socket, token: str) -> int | None:
    """Return the rank of a process that connects and knows the token; None of anything else."""
    try:
        record = read_record(peer, _CONNECTING)
    except OSError:
        return None
    rank, said_token = record.get("rank"), record.get("token")
    knows = isinstance(said_token, str) and hmac.compare_digest(said_token.encode(), token.encode())
    return rank if knows and isinstance(rank, int) else None


def _record(line: bytes) -> dict[str, Any]:
    """Return the record that a line holds; an empty one of any other line."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def _ending(record: dict[str, Any]) -> RankEnding | None:
    """Return the ending that a record tells; None of any other."""
    try:
        reason: Any = record["reason"]
        if reason not in ("failed", "interrupted", "lost", "left"):
            return None
        return RankEnding(int(record["rank"]), reason, str(record["text"]), int(record["exit_code"]))
    except (ValueError, KeyError, TypeError):
        return None


def send(peer: socket.socket, record: dict[str, Any]) -> None:
    """Send a record as a line of JSON; a text in it that is too long is cut."""
    text = json.dumps(record)
    if len(text) >= _LONGEST:
        record = {**record, "text": str(record.get("text", ""))[:2000]}
        text = json.dumps(record)
    # whoever is not there any more is noticed by its own line
    with suppress(OSError):
        peer.sendall(f"{text}\n".encode())
