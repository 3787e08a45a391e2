"""Options of training, for calls and flags alike; importing them does not import torch."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TrainOptions:
    """Options of ``train``.

    Args:
        data: folder that holds the texts; refused where problems of a task are trained on.
        device: cpu or cuda; None = the first accelerator, else the CPU.
    """

    data: str | None = None
    device: str | None = None
