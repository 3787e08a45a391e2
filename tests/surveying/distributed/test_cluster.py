"""What is wrong with a cluster is said in one sentence, before anything is computed."""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Mapping

import pytest
import torch

from bathyscope import OptionError
from bathyscope.surveying.distributed.cluster import connected

ray = pytest.importorskip("ray")


def refused(address: str | None = None, workers: int | None = 2) -> str:
    with pytest.raises(OptionError) as caught, connected(address, workers, True):
        pass
    return str(caught.value)


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert refused() == "engine='ray' needs Ray; pip install 'bathyscope[ray]'."


def test_an_address_at_which_nothing_answers() -> None:
    with socket.socket() as bound:  # a port that nobody listens to
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        said = refused(address)
    assert said.startswith(f"Nothing answers at address='{address}' (")
    assert "give the host and port that 'ray start --head' printed, or leave the address out" in said


@pytest.mark.parametrize("address", ["ray://head:10001", "somewhere", "head:port", ""])
def test_no_address(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "init", lambda **_: pytest.fail("asked Ray"))
    assert "is no address of a Ray cluster; give host:port (10.0.0.1:6379), or auto on a machine" in refused(address)


def test_a_cluster_that_this_machine_does_not_belong_to(monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**_: object) -> None:
        raise ConnectionError("Could not find any running Ray instance. Please specify the one to connect to.")

    monkeypatch.setattr(ray, "init", init)
    assert refused("auto") == (
        "the Ray cluster at address='auto' cannot be used: Could not find any running Ray instance. Please specify the "
        "one to connect to. Start one with 'ray start --head', or leave the address out (workers on this machine "
        "alone)."
    )


@pytest.mark.parametrize(
    ("resources", "workers", "use_gpus", "found"),
    [
        ({"CPU": 8.0}, 3, True, (3, 0)),
        ({"CPU": 8.0, "GPU": 4.0}, None, True, (4, 1)),
        ({"CPU": 8.0, "GPU": 4.0}, 2, True, (2, 1)),
        ({"CPU": 8.0, "GPU": 4.0}, 6, False, (6, 0)),
        (
            {"CPU": 8.0},
            None,
            True,
            r"Say how many workers \(workers=4, --workers 4\); without GPUs each takes one core",
        ),
        ({"CPU": 8.0, "GPU": 1.0}, 2, True, r"workers=2, and the cluster has 1 GPU, .* most 1, or compute on cores"),
        ({"CPU": 8.0}, 9, True, r"workers=9, and the cluster has 8 cores, one for each worker; ask for at most 8\."),
    ],
)
def test_a_worker_has_a_gpu_or_a_core(
    resources: Mapping[str, float],
    workers: int | None,
    use_gpus: bool,
    found: tuple[int, int] | str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "cluster_resources", lambda: resources)
    monkeypatch.setattr(ray, "shutdown", lambda: pytest.fail("the program's own cluster was ended"))
    if isinstance(found, str):
        with pytest.raises(OptionError, match=found), connected(None, workers, use_gpus):
            pass
    else:
        with connected(None, workers, use_gpus) as given:
            assert given == found


def test_a_number_of_workers_is_asked_for_before_a_cluster_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda **_: pytest.fail("a cluster was started"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(OptionError, match="Say how many workers"), connected(None, None, True):
        pass
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(OptionError, match="Say how many workers"), connected(None, None, False):
        pass


def test_a_cluster_that_does_not_start_is_told_in_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise Exception("The current node timed out during startup.")  # noqa: TRY002

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", fail)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    with (
        pytest.raises(OptionError, match=r"on this machine cannot be used: The current node timed out .*fewer workers"),
        connected(None, 2, False),
    ):
        pass
