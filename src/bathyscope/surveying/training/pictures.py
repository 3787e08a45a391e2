"""The profile of a step as a picture in the trackers of a Trainer, whose integrations take numbers alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from transformers import Trainer

from bathyscope.runs.run import Run

NAME: Final = "depth/profile"
Pixels = NDArray[np.uint8]
"""Height × width × red, green, blue, opacity."""


def log_profile(trainer: Trainer, run: Run, step: int) -> int:
    """Send the depth profile of a step to every tracker of a Trainer that takes pictures.

    Args:
        trainer: of which the callbacks are looked through.
        run: the survey of the step.
        step: under which the picture is entered.

    Returns:
        How many trackers have it: W&B, TensorBoard, MLflow and Trackio.

    Raises:
        Exception: whatever a tracker raises, and an OptionError where the run has no profile.
    """
    callbacks = [(_SENDERS.get(type(each).__name__), each) for each in trainer.callback_handler.callbacks]
    senders = [(send, callback) for send, callback in callbacks if send is not None]
    if senders:
        pixels = _pixels_of(run)
        for send, callback in senders:
            send(callback, pixels, step)
    return len(senders)


def _pixels_of(run: Run) -> Pixels:
    figure = run.plot("profile")
    buffer = BytesIO()
    # the bytes of the pixels, row by row; no other library has to read them
    figure.savefig(buffer, format="rgba", dpi="figure")
    width, height = (int(size) for size in figure.bbox.size)
    return np.frombuffer(buffer.getvalue(), dtype=np.uint8).reshape(height, width, 4)


def _send_to_tensorboard(callback: Any, pixels: Pixels, step: int) -> None:
    if callback.tb_writer is not None:
        callback.tb_writer.add_image(f"train/{NAME}", pixels, step, dataformats="HWC")


def _send_to_wandb(callback: Any, pixels: Pixels, step: int) -> None:
    _log_image(callback._wandb, pixels, step)


def _send_to_trackio(callback: Any, pixels: Pixels, step: int) -> None:
    _log_image(callback._trackio, pixels, step)


def _log_image(library: Any, pixels: Pixels, step: int) -> None:
    # the step is a number of the log there, as the integrations have it
    library.log({f"train/{NAME}": library.Image(pixels), "train/global_step": step})


def _send_to_mlflow(callback: Any, pixels: Pixels, step: int) -> None:
    callback._ml_flow.log_image(pixels, key=NAME, step=step, synchronous=True)


_SENDERS: Final[Mapping[str, Callable[[Any, Pixels, int], None]]] = {
    "TensorBoardCallback": _send_to_tensorboard,
    "WandbCallback": _send_to_wandb,
    "TrackioCallback": _send_to_trackio,
    "MLflowCallback": _send_to_mlflow,
}
"""Class of transformers' integrations → how its tracker is given a picture.

They are looked up by name: where a tracker is not installed, its class cannot be used.
"""
