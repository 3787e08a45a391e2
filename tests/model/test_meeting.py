"""Where the process group of ranks has its store."""

from __future__ import annotations

from datetime import timedelta

import pytest
from torch.distributed import TCPStore

from bathyscope.errors import MeetingError
from bathyscope.model import meeting


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Two processes of torchrun, of which this is one."""
    settings = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "TORCHELASTIC_USE_AGENT_STORE": "True"}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def test_the_store_of_torchrun_is_taken(launched: pytest.MonkeyPatch) -> None:
    store = TCPStore("127.0.0.1", 0, 2, True, timedelta(seconds=60), wait_for_workers=False)
    launched.setenv("MASTER_PORT", str(store.port))
    meeting._launchers_store().set("word", "said")
    assert store.get("word") == b"said"


def test_a_launcher_that_does_not_say_where_ranks_meet(launched: pytest.MonkeyPatch) -> None:
    launched.delenv("MASTER_PORT", raising=False)
    with pytest.raises(MeetingError) as caught:
        meeting.open_group(None)
    assert "The processes cannot find each other (" in str(caught.value)
    assert "MASTER_PORT expected, but not set" in str(caught.value)
