"""Models are measured in evaluation mode and in full precision, and are afterwards as they were."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from bathyscope.model.anatomy import mode
from bathyscope.model.anatomy.mode import evaluating


def allow_all_by_the_newer_name() -> None:
    torch.backends.cuda.matmul.fp32_precision = "tf32"


def allow_by_both_names() -> None:
    torch.set_float32_matmul_precision("high")
    torch.backends.cuda.matmul.fp32_precision = "ieee"


USUAL: dict[str, Callable[[], None]] = {
    "nothing": lambda: None,
    "highest": lambda: torch.set_float32_matmul_precision("highest"),
    "high": lambda: torch.set_float32_matmul_precision("high"),
    "medium": lambda: torch.set_float32_matmul_precision("medium"),
    "by the newer name": allow_all_by_the_newer_name,
    "in contradiction": allow_by_both_names,
    "no convolutions": lambda: setattr(torch.backends.cudnn, "allow_tf32", False),
}


def kept() -> list[object]:
    """Torch's settings under all their names; None where it refuses to say."""
    backends: Any = torch.backends
    asked: list[Callable[[], object]] = [
        *(partial(getattr, one, "fp32_precision") for one in (backends.cuda.matmul, backends.mkldnn.matmul)),
        *(partial(getattr, one, "fp32_precision") for one in (backends.cudnn.conv, backends.cudnn.rnn)),
        *(partial(getattr, one, "allow_tf32") for one in (backends.cuda.matmul, backends.cudnn)),
        torch.get_float32_matmul_precision,
    ]
    return [mode.read_setting(one) for one in asked]


@pytest.fixture(params=USUAL.values(), ids=list(USUAL))
def allowed(request: pytest.FixtureRequest) -> Iterator[list[object]]:
    backends: Any = torch.backends
    places = (backends.cuda.matmul, backends.mkldnn.matmul, backends.cudnn.conv, backends.cudnn.rnn)
    values = [one.fp32_precision for one in places]
    before = torch.get_float32_matmul_precision(), backends.cudnn.allow_tf32
    request.param()
    yield kept()
    torch.set_float32_matmul_precision(before[0])
    backends.cudnn.allow_tf32 = before[1]
    for one, value in zip(places, values):
        one.fp32_precision = value


def test_products_are_those_of_float32_while_a_model_is_measured(allowed: list[object]) -> None:
    """On a CPU too, where "medium" stands for products of bfloat16."""
    for error in (None, ValueError):
        try:
            with evaluating(nn.Dropout()):
                assert kept() == [*["ieee"] * 4, False, False, "highest"]
                if error is not None:
                    raise error
        except ValueError:
            pass
        assert kept() == allowed


def test_modes_are_given_back() -> None:
    model = nn.Sequential(nn.Dropout(), nn.Dropout().eval())
    with evaluating(model):
        assert not any(module.training for module in model.modules())
    assert [module.training for module in model.modules()] == [True, True, False]
