"""What ``exit_advice`` gives: numbers by exit and draft length, the exit that pays most, and what follows in words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import xarray as xr

from bathyscope.core.estimates import Estimate
from bathyscope.core.result import TabledResult
from bathyscope.core.tables import TextTable
from bathyscope.core.text import level_text
from bathyscope.labels import Label, interval
from bathyscope.prompts.samples import by_clusters
from bathyscope.surgery.checkpoint.json_record import Act, model_of, record_of, settings_of

if TYPE_CHECKING:
    import pandas as pd

_SOURCE: Final = "exit_advice"
_LOOP: Final = "leviathan2023, greedy"
_by_exit = partial(Label, "exit", source=_SOURCE)
_by_draft = partial(Label, "exit draft", source=_SOURCE)
_verified = partial(Label, "exit", source=_SOURCE, optional=True)
TABLE: Final = {
    "acceptance": _by_exit(
        "share of the generated tokens that an exit predicts", formula="mean of [argmax p_b = next token]"
    ),
    **interval("acceptance", _by_exit, "its interval"),
    "tokens_per_pass": Label("exit draft", "tokens for each full pass", "token", "tokens / passes of the loop", _LOOP),
    **interval("tokens_per_pass", _by_draft, "its interval", "token", source=_LOOP),
    "bare_speed": _by_draft("times plain decoding's speed, blocks and head alone"),
    "speed": _by_draft("times plain decoding's speed, in transformers' generate"),
    **interval("speed", _by_draft, "its interval"),
    "foretold_share": _verified("predicted share of the checked drafts that are right"),
    "measured_share": _verified("share of the checked drafts that were right"),
    **interval("measured", _verified, "its interval"),
    "own_share": _verified("the same, read off plain forwards over the continuations of these prompts"),
    "as_foretold": _verified("the interval of the difference of both holds 0"),
    "measured_tokens_per_pass": _verified("tokens for each full pass, measured", "token"),
    "identical": _verified("share of the prompts that are continued with the same tokens"),
    "plain_seconds": _verified("wall time of a prompt's plain continuation", "s"),
    "exit_seconds": _verified("wall time of a prompt's continuation with drafts", "s"),
    "measured_speed": _verified("times plain decoding's speed, measured"),
}
"""``exit`` counts the blocks that are done, ``draft`` the tokens of a draft."""


_HEADINGS: Final = {
    "acceptance": "predicted",
    "tokens_per_pass": "tokens a pass",
    "bare_speed": "bare speed",
    "speed": "speed",
    "foretold_share": "right drafts, predicted",
    "measured_share": "measured",
    "identical": "identical",
    "plain_seconds": "plain, s",
    "exit_seconds": "with drafts, s",
    "measured_speed": "speed, measured",
}
"""Column → heading."""
_ENDS: Final = {"measured_share": "measured"}
"""Column → what the ends of its interval are called, where that is not its own name."""


@dataclass(frozen=True, repr=False)
class ExitAdvice(TabledResult):
    """Whether stopping early pays, and where.

    Args:
        data: by ``exit`` and ``draft``; what a run gave too where it was verified.

    Example:
        >>> advice = bathyscope.exit_advice("model", "prompts.jsonl", new_tokens=4, longest=2, resamples=100)
        >>> (advice.exit is None) == (advice.draft is None)
        True
        >>> advice.table.empty, advice.text == "", advice.busy in (True, False)
        (False, False, True)
        >>> advice.to_dataframe().equals(advice.table), advice.record()["kind"]
        (True, 'exits')
        >>> advice.tables()[0].headings[:3]
        ['exit', 'draft', 'predicted']
    """

    data: xr.Dataset
    figure = "exits"

    @property
    def _outline(self) -> str:
        advice = (
            ("too busy to time" if self.busy else "don't")
            if self.exit is None
            else f"assistant_early_exit={self.exit}, drafts of {self.draft}"
        )
        return f" for {self.data.attrs['model']}: {advice}"

    @property
    def exit(self) -> int | None:
        """The ``assistant_early_exit`` that pays most; None = don't.

        That is where nothing is reliably faster than plain decoding, where what should be was not when it was run, or
        where the machine was too busy to time anything.
        """
        if self.busy:
            return None
        ran = float(self._at["measured_speed"]) if "measured_speed" in self.data else 2.0
        return self._best[0] if float(self._at["speed_low"]) > 1 and ran > 1 else None

    @property
    def busy(self) -> bool:
        """Whether the machine was too busy to time: plain decoding seemed faster than the forwards in it."""
        return bool(self.data.attrs.get("busy", 0))

    @property
    def draft(self) -> int | None:
        """The tokens of a draft that go with it."""
        return None if self.exit is None else self._best[1]

    def to_dataframe(self) -> pd.DataFrame:
        """Return a row for every exit, with the draft length that pays most there."""
        return best_drafts(self.data).to_dataframe().reset_index()

    def tables(self) -> list[TextTable]:
        """Return a row for every exit: what is predicted, and what was measured where it was run."""
        frame = self.to_dataframe()
        columns = [name for name in _HEADINGS if name in frame]
        rows = [
            [int(row["exit"]), int(row["draft"]), *(Estimate.of(row, name, _ENDS.get(name, "")) for name in columns)]
            for _, row in frame.iterrows()
        ]
        title = f"Exits of {self.data.attrs['n_blocks']} blocks, each with the draft that pays most"
        headings = [_HEADINGS[name] for name in columns]
        return [TextTable(["exit", "draft", *headings], rows, title, forms=dict.fromkeys(headings, ".3g"))]

    def record(self) -> dict[str, Any]:
        """Return everything as one JSON record: the head that all acting commands share, and the exits."""
        attrs = dict(self.data.attrs)
        roles = {"prompts": {"name": attrs["data"], "prompts": attrs["prompts"], "tokens": attrs["tokens"]}}
        if "data_hash" in attrs:
            roles["prompts"]["hash"] = attrs["data_hash"]
        advice = {} if self.exit is None else {"assistant_early_exit": self.exit, "num_assistant_tokens": self.draft}
        act = Act(
            kind="exits",
            conclusion=self.text,
            proved=self.exit is not None,
            model=model_of(attrs),
            data=roles,
            settings=settings_of(attrs, "new_tokens", "changed"),
        )
        timing = {name: attrs[name] for name in attrs if name.endswith("_seconds") or name.startswith("timing_")}
        threshold = {name: attrs[name] for name in attrs if name.startswith("threshold")}
        timing |= {"busy": bool(self.busy)}
        return record_of(act, advice=advice, timing=timing, threshold=threshold, exits=self.table)

    @property
    def text(self) -> str:
        """What to do, what an exit for good would change, and what the run gave."""
        return " ".join([self._advise(), self._describe_threshold(), *self._describe_verification()])

    @property
    def _best(self) -> tuple[int, int]:
        by_exit = best_drafts(self.data)
        place = int(_preference(by_exit).values.argmax())
        return int(by_exit["exit"].values[place]), int(by_exit["draft"].values[place])

    @property
    def _at(self) -> xr.Dataset:
        exit_, draft = self._best
        return self.data.sel(exit=exit_, draft=draft)

    def _advise(self) -> str:
        at, attrs, (exit_, draft) = self._at, self.data.attrs, self._best
        drafts = f"drafts of {draft} token{'s' * (draft > 1)}"
        acceptance, per_pass = (f"{Estimate.of(at, name):.3g}" for name in ("acceptance", "tokens_per_pass"))
        numbers = (
            f"{acceptance} of the generated tokens are predicted there, {per_pass} come of each full pass, and that is "
            f"{Estimate.of(at, 'speed'):.3g} times as fast as plain greedy decoding"
        )
        trial = f"{attrs['tokens']} tokens after {attrs['prompts']} prompts{by_clusters(attrs)}, "
        trial += f"{level_text(float(attrs['level']))} intervals"
        if self.exit is not None:
            return (
                f"Draft with the first {exit_} of {attrs['n_blocks']} blocks (assistant_early_exit={exit_}, {drafts}): "
                f"{numbers} ({trial})."
            )
        if self.busy:
            plain = 1000 * float(attrs["plain_seconds_per_token"])
            forward = 1000 * (int(attrs["n_blocks"]) * float(attrs["block_seconds"]) + float(attrs["rest_seconds"]))
            return (
                f"Too busy to time: plain generate() took {plain:.3g} ms for each token, less than the bare forward in "
                f"it ({forward:.3g} ms), so no speed is known. Ask again when nothing else runs. Nearest without "
                f"times: exit {exit_}, {drafts}: {acceptance} of the generated tokens are predicted there, "
                f"{per_pass} come of each full pass ({trial})."
            )
        bare = self.data["bare_speed"]
        fastest = bare.isel(bare.argmax(("exit", "draft")))
        text = "Not recommended: no exit and draft length is reliably faster than plain generate(). "
        if float(at["speed_low"]) > 1:
            text = "Not recommended: predicted to be faster, but slower when measured. "
        text += f"Nearest: exit {exit_}, {drafts}: {numbers} ({trial})."
        # where drafts gain with all that generate takes, the sentence above says already what speaks against them
        if float(fastest) > 1 and float(at["speed"]) <= 1:
            text += (
                f" Blocks and head alone would be {float(fastest):.3g} times as fast at exit {int(fastest['exit'])} "
                f"with drafts of {int(fastest['draft'])}; what generate itself takes around each draft eats that up."
            )
        return text

    def _describe_threshold(self) -> str:
        attrs = self.data.attrs
        bound = f"{float(attrs['changed']):.3g}"
        units = "clusters" if "cluster" in attrs else "prompts"
        if np.isnan(attrs["threshold"]):
            few = int(attrs["threshold_prompts"]) < int(attrs["threshold_fewest"])
            why = (
                f"it takes {attrs['threshold_fewest']} {units} to test with, and there are {attrs['threshold_prompts']}"
                if few
                else f"tested at exit {attrs['threshold_exit']} on {attrs['threshold_prompts']} {units}"
            )
            return f"No threshold is known under which leaving for good changes at most {bound} of the tokens: {why}."
        return (
            f"Leaving for good at exit {attrs['threshold_exit']} where its likeliest token has a probability of "
            f"{float(attrs['threshold']):.3g} or more spares {float(attrs['threshold_ready']):.3g} of the tokens the "
            f"other blocks and changes at most {bound} of them ({float(attrs['threshold_changed']):.2g} on "
            f"{attrs['threshold_prompts']} {units} that did not choose it; {level_text(float(attrs['level']))} sure)."
        )

    def _describe_verification(self) -> list[str]:
        if "measured_share" not in self.data:
            return []
        data, attrs = self.data, self.data.attrs
        same = float(data["identical"].mean())
        share = "all runs" if same == 1 else f"{same:.4g} of all runs"
        apart = float(abs(data["own_share"] - data["measured_share"]).max())
        sentences = [
            f"Run on {attrs['verified_prompts']} other prompts: the share of right drafts is as predicted at "
            f"{int(data['as_foretold'].sum())} of {data.sizes['exit']} exits (read off plain continuations of these "
            f"prompts, it is at most {apart:.2g} away), and {share} gave the tokens of plain decoding."
        ]
        at = data.sel(exit=self._best[0])
        sentences.append(
            f"Wall time at exit {self._best[0]}: {float(at['exit_seconds']):.3g} s a prompt, plain "
            f"{float(at['plain_seconds']):.3g} s ({float(at['measured_speed']):.3g} times as fast)."
        )
        return sentences


def best_drafts(data: xr.Dataset) -> xr.Dataset:
    """Return what depends on the draft by exit alone: at the length that pays most, which is ``draft`` then."""
    predicted = data.drop_vars("measured_speed", errors="ignore")
    return data.isel(draft=_preference(predicted).argmax("draft")).reset_coords("draft")


def _preference(data: xr.Dataset) -> xr.DataArray:
    """Return a number that is greatest where drafts pay most: the speed, and more where it is reliably above 1.

    One that only seems fastest must not hide another that is faster for sure, nor one that was slower when it was run
    hide another that was faster.
    """
    is_reliable = data["speed_low"] > 1
    levels = is_reliable.astype(np.float64)
    if "measured_speed" in data:
        levels = levels + (is_reliable & (data["measured_speed"] > 1))
    return data["speed"] + levels * (1 + data["speed"].max())
