"""A run as Markdown for a model card: its profile, what it says, and the numbers for programs."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bathyscope.core.calls import checked
from bathyscope.core.foreign import read_text
from bathyscope.core.output import write_output
from bathyscope.core.own_files import require_own, require_own_picture
from bathyscope.core.paths import given_path, require_writable
from bathyscope.core.strict import plain
from bathyscope.core.text import elided, legible, literal_markdown
from bathyscope.errors import OptionError
from bathyscope.pages.figures.arguments import read_one_run
from bathyscope.pages.files.badge import ProfiledRun
from bathyscope.pages.head import drawing
from bathyscope.pages.head.answer import answer
from bathyscope.pages.head.numbers import Mark, Points, Profile, read_profile
from bathyscope.pages.head.section import facts
from bathyscope.pages.head.sentences import basis, headline, mark_label

if TYPE_CHECKING:
    from bathyscope.runs.run import Run

_SUFFIXES: Final = (".md", ".markdown")
_TITLE: Final = "## Depth"
_RECORD: Final = "bathyscope"


@checked
def card(run: ProfiledRun, out: str | Path | None = None) -> str:
    """Write a run up for a model card: Markdown with the depth profile and a block of numbers for programs.

    Args:
        out: a Markdown file to write; the picture is written next to it, under its name with .svg. None = the text
            alone is returned, without a picture.

    Returns:
        The text.

    Raises:
        OptionError: a run with nothing to show, or with only some of its blocks; ``out`` does not end in .md.
        StoreError: a file cannot be written, or is there and no card or picture of this package.

    Example:
        >>> print(bathyscope.card(run, "depth.md").splitlines()[0])
        ## Depth
    """
    run = read_one_run(run, "card")
    profile = read_profile(run)
    if profile.empty:
        raise OptionError(
            f"A card needs the lens, skip or drop; this run has {', '.join(run.measures) or 'no measure'}. Survey with "
            "measures=['lens', 'skip', 'drop']."
        )
    path = None if out is None else given_path(out, "out")
    if path is not None and path.suffix.lower() not in _SUFFIXES:
        raise OptionError(f"out={str(out)!r} is not the name of a Markdown file; give one, such as 'depth.md'.")
    picture = None if path is None else path.with_suffix(".svg")
    for place in (path, picture):
        if place is not None:
            require_writable(place)
    if path is not None and picture is not None:
        require_own(path, "a card", _is_card)
        require_own_picture(picture)
    text = _write_text(run, profile, None if picture is None else picture.name)
    if path is not None and picture is not None:
        write_output(picture, drawing.alone(profile).encode("utf-8"))
        write_output(path, text.encode("utf-8"))
    return text


def profile_record(profile: Profile) -> dict[str, Any]:
    """Return the numbers of a profile for JSON; null where it is missing."""
    return {
        "model": profile.model,
        "dataset": profile.dataset,
        "prompts": profile.prompts,
        "tokens": profile.tokens,
        "blocks": profile.n_blocks,
        "caveats": [] if profile.verdict is None else list(profile.verdict.caveats),
        "depths": {mark.name: _mark_record(mark) for mark in profile.marks},
        "share_final_by_boundary": _points_record(profile.share),
        "added_loss_by_block": _points_record(profile.costs),
        "criteria": dict(profile.criteria),
        "controls": {
            control.kind: {
                "seeds": len(control.curves),
                "depths": {mark.name: _mark_record(mark) for mark in control.marks},
            }
            for control in profile.controls
        },
    }


def _write_text(run: Run, profile: Profile, picture: str | None) -> str:
    lines = [_TITLE, "", f"**{literal_markdown(headline(profile))}.** {literal_markdown(basis(profile))}", ""]
    if picture is not None:
        words = "; ".join(mark_label(mark)[0] for mark in profile.marks) or "loss added by leaving out each block"
        lines += [f"![Depth profile: {literal_markdown(words)}](<{picture}>)", ""]
    for fact in facts(profile, answer(run)):
        lines.append(f"- **{literal_markdown(fact.title)}.** {literal_markdown(fact.text)}{_code(fact.command)}")
    identity = run.identity
    measured = f"Measured with bathyscope on {elided(profile.dataset, 60)}, {identity.dtype}"
    lines += ["", f"{literal_markdown(measured)}; weights {_code_span(identity.weight_hash[:16])}.", "", "```json"]
    lines += [_json({_RECORD: profile_record(profile)}), "```", ""]
    return "\n".join(lines)


def _is_card(path: Path) -> bool:
    """Whether a file is a card from its first line on; a README into which one was pasted is not."""
    text = read_text(path)
    return text.startswith(f"{_TITLE}\n") and f'```json\n{{"{_RECORD}":' in text


def _json(record: dict[str, Any]) -> str:
    """Return a record in which nothing can end the block of code around it."""
    text = json.dumps(plain(record), allow_nan=False)
    return text.replace("<", "\\u003c").replace("`", "\\u0060")


def _code(command: str) -> str:
    return f" {_code_span(command)}" if command else ""


def _code_span(text: str) -> str:
    """Return a text as code, from which it cannot break out."""
    longest = max((len(ticks) for ticks in re.findall("`+", text)), default=0)
    fence, room = "`" * (longest + 1), " " if longest else ""
    return f"{fence}{room}{legible(text)}{room}{fence}"


def _mark_record(mark: Mark) -> dict[str, float | None]:
    return {name: _number(getattr(mark, name)) for name in ("value", "low", "high")}


def _points_record(points: Points | None) -> dict[str, Any] | None:
    if points is None:
        return None
    ends = {name: [_number(value) for value in getattr(points, name)] for name in ("mean", "low", "high")}
    return {"places": list(points.places), **ends}


def _number(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 4)
