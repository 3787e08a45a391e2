"""Windows of the tokens of a text, from parts of it that do not overlap."""

from __future__ import annotations

from pathlib import Path

from bathyscope import Model


def token_windows(
    model: Model, file: Path, count: int, tokens: int, share: tuple[float, float] = (0.0, 1.0)
) -> list[list[int]]:
    """Return windows of a text file as token ids, as far apart as the part of the text allows.

    Args:
        count: of windows.
        tokens: of each.
        share: where the part begins and ends, as shares of the text's letters.

    Raises:
        ValueError: the part is too short for so many windows without overlap.
    """
    text = file.read_text(encoding="utf-8")
    first, last = (round(end * len(text)) for end in share)
    # a tokenizer warns of texts longer than the model's context, which no window is
    ids = model.tokenizer(text[first:last], add_special_tokens=False, verbose=False)["input_ids"]
    step = len(ids) // count
    if step < tokens:
        raise ValueError(f"{file.name} has {len(ids)} tokens there, too few for {count} windows of {tokens}.")
    return [list(ids[start : start + tokens]) for start in range(0, step * count, step)]
