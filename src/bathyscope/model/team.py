"""One of the processes of a model that is split over several, and how it hears and tells that one of them ends."""

from __future__ import annotations

import atexit
import os
import secrets
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from bathyscope.core.interrupted_imports import ended_at_once, is_importing
from bathyscope.core.interrupts import INTERRUPTED, wait_for_uninterrupted
from bathyscope.core.launched import start_seconds
from bathyscope.errors import BathyscopeError, ModelError, RankError, StoreError, is_out_of_memory
from bathyscope.model.gathering import RankSearch
from bathyscope.model.line import Line, RankEnding
from bathyscope.model.meeting import close_group, open_group

_GRACE: Final = 4.0
"""Seconds in which a rank that has heard of an ending may end in order; a collective that waits for ever does not."""
_HEARING: Final = 3.0
"""Seconds for the reason to arrive when a collective has failed."""
_OF_CONNECTIONS: Final = ("closed by peer", "connection reset", "broken pipe", "gloo", "nccl", "connection refused")


class Team:
    """The processes of one model, seen from one of them.

    Args:
        rank: of this process, from 0.
        size: how many there are.
        address: where rank 0 is to be found; None = by the process group, or by what torchrun has for it.
    """

    def __init__(self, rank: int, size: int, address: tuple[str, int] | None = None) -> None:
        self.rank = rank
        self.size = size
        self._address = address
        self.inside = False
        """Whether all are at work together."""
        self.finishing = False
        """Whether this rank has done its work and waits for the others."""
        self.has_met = False
        """Whether the process group and the line to the others are open."""
        self.ending: RankEnding | None = None
        """The first ending that was received or sent."""
        self._heard = threading.Event()
        self._line = Line(rank, self._hear)
        self._gathering: RankSearch | None = None

    @contextmanager
    def on_the_way(self) -> Iterator[None]:
        """Look for the other ranks inside, where ``meet`` is called, and let them know of an error there.

        Nothing is under way yet, so that a rank which is interrupted while it imports ends without further steps.

        Raises:
            RankError: another rank has ended.
        """
        try:
            if self._address is not None and not self.has_met:
                gathering = RankSearch(self._line, self.rank, self.size, self._address)
                gathering.begin()
                atexit.register(self._leave)
                self._gathering = gathering
                gathering.limit = start_seconds()
            with ended_at_once(self._end_interrupted):
                yield
        except BaseException as error:
            # an import that is interrupted may end with an error of its own
            if self.ending is not None:
                raise self.error() from error
            if self._gathering is not None:
                self._gathering.linger(_GRACE)
            raise
        finally:
            if self._gathering is not None and not self.has_met:
                self._gathering.close()

    def meet(self) -> None:
        """Join all ranks by a process group, and by a line that tells the end of each (collective).

        Raises:
            MeetingError: they do not find each other.
        """
        if self.has_met:
            return
        import torch.distributed as dist

        if not dist.is_available():
            raise ModelError("This torch is built without torch.distributed, which tensor parallelism needs.")
        if not dist.is_initialized():
            open_group(self._gathering)
        if self._gathering is None:
            self._open_line()
        self.has_met = True

    def _open_line(self) -> None:
        """Connect the ranks of a process group that is open."""
        import torch.distributed as dist

        # strangers that find the port do not know the token, which only the group has
        introduction: list[Any] = [None]
        hosts: list[Any] = [None] * self.size
        dist.all_gather_object(hosts, socket.gethostname())
        if self.rank == 0:
            host = "127.0.0.1" if len(set(hosts)) == 1 else _reachable_name()
            introduction = [(*self._line.listen(host), secrets.token_hex(16))]
        dist.broadcast_object_list(introduction, src=0)
        host, port, token = introduction[0]
        if self.rank == 0:
            self._line.accept(self.size - 1, token)
        else:
            self._line.connect((host, port), token)
        atexit.register(self._leave)

    def error(self) -> BaseException:
        """Return what the ending of another rank raises here."""
        assert self.ending is not None
        if self.ending.reason == "interrupted":
            return KeyboardInterrupt()
        return RankError(self.ending.message, self.ending.exit_code, speaks=self._speaks)

    def _ended_by(self, error: BaseException, tells: bool) -> BaseException:
        """Return what an error inside becomes: itself, or what another rank ended with."""
        follows = isinstance(error, KeyboardInterrupt) or _is_of_connection(error)
        if follows and not isinstance(error, KeyboardInterrupt):
            self._heard.wait(_HEARING)
        if follows and self.ending is not None:
            # all were interrupted, and this one may have words of its own
            is_same = isinstance(error, KeyboardInterrupt) and self.ending.reason == "interrupted"
            return error if is_same else self.error()
        if tells and self.ending is None:
            self.ending = _ending_of(error, self.rank)
            self._line.tell(self.ending)
        return error

    @contextmanager
    def following(self, *, tells: bool) -> Iterator[None]:
        """Raise what another rank ended with in the place of an error that follows from it.

        Args:
            tells: any other error ends this rank, and the others learn of it; False = somebody outside may go on.
        """
        try:
            yield
        except BaseException as error:
            raised = self._ended_by(error, tells)
            if raised is error:
                raise
            raise raised from error

    def end_before_others(self) -> None:
        """End this process at once, with the message where it is this rank's to say."""
        assert self.ending is not None
        if self._speaks:
            prefix = "" if self.ending.reason == "interrupted" else "error: "
            os.write(2, f"{prefix}{self.ending.message}\n".encode("utf-8", "backslashreplace"))
        code = INTERRUPTED if self.ending.reason == "interrupted" else self.ending.exit_code
        os._exit(code)

    def _end_interrupted(self) -> None:
        """Let the others know that this rank is interrupted on its way to them, and end the process."""
        if self.ending is None:
            self.ending = RankEnding(self.rank, "interrupted", exit_code=INTERRUPTED)
            self._line.tell(self.ending)
            if self._gathering is not None:
                self._gathering.linger(_GRACE)
        self.end_before_others()

    @property
    def _speaks(self) -> bool:
        """Whether this rank says how it ended: rank 0, or the next one where that is not there any more."""
        has_lost_first = self.ending is not None and self.ending.rank == 0 and self.ending.reason in ("lost", "left")
        return self.rank == (1 if has_lost_first else 0)

    def _hear(self, ending: RankEnding) -> None:
        """Take the ending of another rank, in the thread of a line."""
        if self.ending is not None:
            return
        self.ending = ending
        self._heard.set()
        if not self.inside:
            return
        if not self.has_met and is_importing():
            self.end_before_others()
        # In order first: as SIGTERM does, which waits while a file is written. Nothing in a collective hears that.
        answered = signal.getsignal(signal.SIGTERM) not in (signal.SIG_DFL, signal.SIG_IGN, None)
        if answered and not self.finishing:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
        timer = threading.Timer(_GRACE, self._end_if_inside)
        timer.daemon = True
        timer.start()

    def _end_if_inside(self) -> None:
        if self.inside:
            # a file that is being written is written to its end
            wait_for_uninterrupted(_GRACE)
            self.end_before_others()

    def _leave(self) -> None:
        """Say at the end of the program that nothing has happened, and close the group that was opened here."""
        if self.ending is None:
            self._line.tell(RankEnding(self.rank, "left"))
        close_group(self.ending is None)


def _reachable_name() -> str:
    """Return the name under which other machines reach rank 0."""
    return os.environ.get("MASTER_ADDR") or socket.gethostname()


def _is_of_connection(error: BaseException | None) -> bool:
    """Whether a collective failed because another rank is not there any more."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        # errors of the model are wrapped into refusals of it
        if type(error).__name__ in ("DistBackendError", "DistNetworkError", "DistStoreError"):
            return True
        text = str(error).lower()
        if isinstance(error, RuntimeError | ValueError) and any(words in text for words in _OF_CONNECTIONS):
            return True
        error = error.__cause__ or error.__context__
    return False


def _ending_of(error: BaseException, rank: int) -> RankEnding:
    """Return how a rank ends that raises an error."""
    if isinstance(error, KeyboardInterrupt):
        return RankEnding(rank, "interrupted", exit_code=INTERRUPTED)
    if isinstance(error, BathyscopeError):
        return RankEnding(rank, "failed", str(error), error.exit_code)
    text = f"{type(error).__name__}: {' '.join(str(error).split())}"
    if is_out_of_memory(error):
        return RankEnding(rank, "failed", f"out of memory ({text[:200]})", ModelError.exit_code)
    code = StoreError.exit_code if isinstance(error, OSError) and error.filename is not None else 1
    return RankEnding(rank, "failed", text, code)
