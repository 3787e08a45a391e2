"""Without a network the hub is asked once, told of once, and what is in the cache is used."""

from __future__ import annotations

import warnings

import pytest
from huggingface_hub import constants

import bathyscope
from bathyscope.core import network
from bathyscope.core.network import cache_alone_without_network, unreachable
from bathyscope.errors import ModelError, PromptError
from bathyscope.prompts import hub as data_sets


class Client:
    """Counts its calls, and answers none."""

    def __init__(self, error: Exception | None) -> None:
        self.calls, self._error = 0, error

    def head(self, url: str, timeout: float) -> None:
        self.calls += 1
        assert timeout <= 10
        if self._error is not None:
            raise self._error


@pytest.fixture
def client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Client:
    """The hub's client, in a process that believes in a network."""
    made = Client(getattr(request, "param", OSError("Name or service not known")))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(network, "_LAST", network._Answer())
    monkeypatch.setattr("huggingface_hub.utils.get_session", lambda: made)
    return made


WORDS = r"^The hub cannot be reached \(Name or service not known\)\. Only what is in the cache is used for the next"


def test_the_hub_is_asked_once_and_told_of_once(client: Client) -> None:
    with pytest.warns(UserWarning, match=WORDS) as caught:
        assert [unreachable() for _ in range(3)] == ["Name or service not known"] * 3
    assert (client.calls, len(caught)) == (1, 1)


@pytest.mark.parametrize("client", [None], indirect=True)
def test_a_hub_that_answers_changes_nothing(client: Client) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with cache_alone_without_network() as reason:
            assert (reason, constants.HF_HUB_OFFLINE) == ("", False)
    assert client.calls == 1


@pytest.mark.filterwarnings("ignore:The hub cannot be reached")
def test_libraries_look_into_the_cache_alone(client: Client) -> None:
    with cache_alone_without_network():
        assert constants.HF_HUB_OFFLINE
    assert not constants.HF_HUB_OFFLINE


@pytest.mark.filterwarnings("ignore:The hub cannot be reached")
@pytest.mark.usefixtures("client")
def test_models_and_data_sets_are_refused_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    import datasets

    monkeypatch.chdir(str(tmp_path))
    with pytest.raises(ModelError) as caught:
        bathyscope.load("nobody/no-such-model")
    assert str(caught.value) == (
        "nobody/no-such-model is no folder here and not in the cache, and the hub cannot be reached (Name or service "
        "not known). Give a checkpoint folder or a hub name such as Qwen/Qwen2.5-1.5B."
    )
    asked = []

    def load_dataset(*names: str, **options: object) -> None:
        asked.append(constants.HF_HUB_OFFLINE)
        raise ConnectionError("no cache")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(PromptError, match=r"could not be loaded from the hub: no cache\. Without a network give"):
        data_sets.hub_rows("some/data", None, "test", "give a file")
    assert asked == [True]
