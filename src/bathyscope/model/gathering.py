"""How processes that were started without torchrun find each other: before torch, which takes seconds, is imported.

torchrun watches the processes that it starts. Without it rank 0 listens where the launcher says (``MASTER_ADDR`` and
``MASTER_PORT``), and every other rank connects to it as soon as it begins. The connection is the line between them: a
rank that dies while it imports is heard, and not waited for. A rank that never begins cannot be heard; after some
seconds the others say whom they wait for, and for how long.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import suppress
from typing import Any, Final

from bathyscope.core.launched import START_SECONDS, START_VARIABLE
from bathyscope.core.progress import write_line
from bathyscope.errors import MeetingError
from bathyscope.model.line import Line, RankEnding, read_record, send

_ANSWER: Final = 30.0
"""Seconds in which rank 0 answers whoever has reached it: by a thread that does nothing else."""
_AGAIN: Final = 0.2
"""Seconds until an address is tried again."""
_NOTICE: Final = 10.0
"""Seconds after which people are told who is waited for."""


class RankSearch:
    """One rank on its way to the others.

    Args:
        line: on which the others will be heard.
        rank: of this process.
        size: how many processes were started.
        address: where rank 0 is to be found.
    """

    def __init__(self, line: Line, rank: int, size: int, address: tuple[str, int]) -> None:
        self._line = line
        self._rank = rank
        self._size = size
        self._address = address
        self._place = f"{address[0]}:{address[1]}"
        self.limit = START_SECONDS
        """Seconds from its beginning in which all have to be met."""
        self._began = time.monotonic()
        self._changed = threading.Condition()
        self._fault = "no answer so far"
        self._refusal = ""
        self._store_port = 0
        self._server: socket.socket | None = None
        self._is_closed = False
        line.take = self._take

    def begin(self) -> None:
        """Listen on rank 0, or look for it; both go on in a thread.

        Raises:
            MeetingError: something else listens at the address of rank 0.
        """
        if self._rank == 0:
            self._server = self._listen()
        work = self._look_for_first if self._server is None else self._receive
        threading.Thread(target=work, daemon=True, name="bathyscope gathering").start()

    def close(self) -> None:
        """Let no further rank come, and look for none."""
        self._is_closed = True
        if self._server is not None:
            # what waits in ``accept`` is not woken by closing alone
            with suppress(OSError):
                self._server.shutdown(socket.SHUT_RDWR)
            self._server.close()

    def wait(self) -> None:
        """Return when this rank, or on rank 0 every other, has been met.

        Raises:
            MeetingError: within the time some have not begun, or what listens is not rank 0.
        """
        with self._changed:
            if not self._changed.wait_for(self._is_decided, self._seconds_to(_NOTICE)):
                left = f"{self._seconds_to(self.limit):.0f} s more"
                write_line(f"{self._describe_wait('waits')}: {left} ({START_VARIABLE} sets it; Ctrl-C ends it).", {})
                self._changed.wait_for(self._is_decided, self._seconds_to(self.limit))
            if self._refusal:
                raise MeetingError(f"Rank {self._rank} cannot join the others: {self._refusal}.")
            if not self._has_met():
                raise MeetingError(
                    f"{self._describe_wait(f'has waited {self.limit:.0f} s')}. Start all ranks within that time, or "
                    f"give more seconds ({START_VARIABLE})."
                )

    def linger(self, seconds: float) -> None:
        """Wait so long at most until others can be told that this rank ends: they may have begun just now."""
        with self._changed:
            self._changed.wait_for(self._is_decided, seconds)

    def store(self) -> Any:
        """Return torch's store, which rank 0 opens when all have been met.

        Raises:
            MeetingError: as for ``wait``.
            RuntimeError: the store cannot be opened or reached.
        """
        from datetime import timedelta

        from torch.distributed import TCPStore

        self.wait()
        limit = timedelta(seconds=self.limit)
        if self._rank == 0:
            store = TCPStore(self._address[0], 0, self._size, True, limit, wait_for_workers=False)
            self._line.send_all({"store": store.port})
            return store
        # rank 0 may still import; its line says where it ends
        with self._changed:
            self._changed.wait_for(lambda: self._store_port > 0)
        return TCPStore(self._address[0], self._store_port, self._size, False, limit)

    def _is_decided(self) -> bool:
        return bool(self._refusal) or self._has_met()

    def _has_met(self) -> bool:
        return len(self._line.ranks) >= (self._size - 1 if self._rank == 0 else 1)

    def _seconds_to(self, end: float) -> float:
        return max(0.0, self._began + end - time.monotonic())

    def _describe_wait(self, waits: str) -> str:
        """Say who is waited for, where, and what is known of it."""
        if self._rank > 0:
            return f"Rank {self._rank} {waits} for rank 0 at {self._place}, where nothing answers ({self._fault})"
        missing = sorted({*range(1, self._size)} - self._line.ranks)
        names = ", ".join(map(str, missing[:8])) + (" …" if len(missing) > 8 else "")
        return f"Rank 0 {waits} at {self._place} for rank {names} of {self._size} processes, not started so far"

    def _listen(self) -> socket.socket:
        """Return a socket at the port of rank 0, on all addresses of this machine as torch's own."""
        try:
            if socket.has_dualstack_ipv6():
                return socket.create_server(("", self._address[1]), family=socket.AF_INET6, dualstack_ipv6=True)
            return socket.create_server(("", self._address[1]))
        except OSError as error:
            raise MeetingError(
                f"Rank 0 cannot listen at {self._place} ({os.strerror(error.errno or 0)}). Give all ranks a port "
                "that is not in use (MASTER_PORT; of torchrun --master-port)."
            ) from error

    def _receive(self) -> None:
        """Take connections for as long as the program runs: whoever comes too late is told so."""
        assert self._server is not None
        while not self._is_closed:
            try:
                peer, _ = self._server.accept()
            except OSError:
                # such as too many open files, which may pass
                time.sleep(_AGAIN)
                continue
            # one who says nothing keeps nobody waiting
            threading.Thread(target=self._welcome, args=(peer,), daemon=True).start()

    def _welcome(self, peer: socket.socket) -> None:
        try:
            record = read_record(peer, _ANSWER)
        except OSError:
            record = {}
        rank, size = record.get("rank"), record.get("of")
        if not isinstance(rank, int) or not isinstance(size, int):
            peer.close()
            return
        refusal = ""
        if size != self._size or not 0 < rank < size:
            refusal = f"it was started as one of {size} processes, and rank 0 at {self._place} as one of {self._size}"
        elif not self._line.admit(rank, peer, {"welcome": rank}):
            refusal = f"another process of this rank is at {self._place}, of this program or of another one"
        if refusal:
            send(peer, {"refusal": refusal})
            peer.close()
        with self._changed:
            self._changed.notify_all()

    def _look_for_first(self) -> None:
        """Connect to rank 0, which may begin later; whoever listens there and does not answer is somebody else."""
        first_reached: float | None = None
        while self._seconds_to(self.limit) > 0 and not self._is_closed and not self._is_decided():
            try:
                peer = socket.create_connection(self._address, _ANSWER)
                first_reached = first_reached or time.monotonic()
                self._introduce(peer)
            except ConnectionRefusedError as error:
                self._fault = os.strerror(error.errno or 0)
                if first_reached is not None:
                    # the program may import for seconds before it waits here; whoever hears an ending ends at once
                    lost = f"Rank 0 has ended before it answered the others: nothing listens at {self._place} any more."
                    self._line.report(RankEnding(0, "lost", lost))
                    self._refusal = f"what has listened at {self._place} has ended, and gave no answer"
            except OSError as error:
                self._fault = error.strerror or str(error)
            if not self._is_decided() and first_reached is not None and time.monotonic() - first_reached >= _ANSWER:
                self._refusal = f"what listens at {self._place} has not answered as rank 0 within {_ANSWER:.0f} s"
            with self._changed:
                self._changed.notify_all()
            time.sleep(_AGAIN)

    def _introduce(self, peer: socket.socket) -> None:
        """Say which rank this is to whoever listens where rank 0 is to be."""
        send(peer, {"rank": self._rank, "of": self._size})
        try:
            answer = read_record(peer, _ANSWER)
        except OSError:
            peer.close()
            raise
        if "welcome" in answer:
            self._line.admit(0, peer)
            return
        peer.close()
        self._refusal = str(answer.get("refusal", ""))

    def _take(self, record: dict[str, Any]) -> None:
        """Take from rank 0 where the store is."""
        port = record.get("store")
        if isinstance(port, int):
            with self._changed:
                self._store_port = port
                self._changed.notify_all()
