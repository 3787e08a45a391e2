"""``repeat_scan``: does it help to run some window of blocks twice in a row?"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd
import xarray as xr

from bathyscope.core.arrays import BoolArray
from bathyscope.core.calls import takes
from bathyscope.core.common_options import ChatForm, Progress
from bathyscope.core.estimates import Estimate
from bathyscope.core.interrupts import ended_as_interrupted
from bathyscope.core.result import TabledResult
from bathyscope.core.tables import TextTable
from bathyscope.core.text import level_text
from bathyscope.errors import ModelError, OptionError, PromptError
from bathyscope.labels import Label, interval, labelled
from bathyscope.measures.costs import Metric, Over, Values
from bathyscope.model import Model, ModelArgument, alone, loaded
from bathyscope.model.anatomy.parallel import refusal_of_schedule
from bathyscope.model.reading import PromptReading
from bathyscope.prompts.in_memory import Source
from bathyscope.prompts.prompts import Prompts
from bathyscope.prompts.samples import by_clusters
from bathyscope.schedule import Schedule
from bathyscope.statistics.best import simultaneous, simultaneous_gains
from bathyscope.statistics.sampling import Sampling
from bathyscope.surgery.checkpoint.json_record import Act, model_of, record_of, settings_of
from bathyscope.surgery.options import RepeatScanOptions
from bathyscope.surgery.trial.ledger import Ledger
from bathyscope.surgery.trial.trial import read_trial
from bathyscope.wavefront.histories import following, twice

_NAMED: Final = 5
_MOST_ROWS: Final = 10
"""Windows that people read; the table has all."""
_SOURCE: Final = "repeat_scan"
_label = partial(Label, "window", source=_SOURCE)
_ENDS: Final = "its interval, corrected for all windows"
_TABLE: Final = {
    "schedule": _label("the order of the blocks"),
    "cost": _label("mean cost", "nats", "mean of loss(S) − loss(full)"),
    **interval("cost", _label, _ENDS, "nats"),
    "accuracy": _label("share of the prompts whose answer is right", optional=True),
    "gain": _label("accuracy beyond the full model's", optional=True),
    **interval("gain", partial(_label, optional=True), _ENDS),
    "p_value": _label("p of no gain, or of no cost, corrected for all windows"),
    "helps": _label("the interval lies on the better side: of the gain, or of the cost"),
}


@dataclass(frozen=True, repr=False)
class RepeatScan(TabledResult):
    """What running windows twice does.

    Args:
        data: by ``window``, with the coordinates ``first`` and ``last`` (−1 for orders that are no window).

    Example:
        >>> scan = bathyscope.repeat_scan("shallow", "prompts.jsonl", resamples=200)
        >>> scan.helping
        []
        >>> scan.table.window.tolist()
        ['0', '0…1', '1']
        >>> scan.to_dataframe().equals(scan.table), scan.record()["kind"]
        (True, 'windows')
        >>> scan.tables()[0].title
        'The 3 best of 3 windows'
        >>> print(scan.text)
        No window helps: of 3 windows run twice in a row, 12 prompts, ...
    """

    data: xr.Dataset

    @property
    def _outline(self) -> str:
        return f" of {self.data.attrs['model']}: {len(self.helping)} of {self.data.sizes['window']} windows help"

    @property
    def helping(self) -> list[str]:
        """Names of the windows that help, shortest first."""
        order = np.argsort((self.data["last"] - self.data["first"]).values, kind="stable")
        return [str(self.data["window"].values[place]) for place in order if self.data["helps"].values[place]]

    def to_dataframe(self) -> pd.DataFrame:
        """Return a row for every window."""
        return self.data.to_dataframe().reset_index().astype({"helps": bool})

    def tables(self) -> list[TextTable]:
        """Return the windows that come nearest to helping, the best first."""
        answered = "gain" in self.data
        judged_by = "gain" if answered else "cost"
        best = self.to_dataframe().sort_values(judged_by, ascending=not answered).head(_MOST_ROWS)
        forms = {**({"accuracy": ".4g", "gain": ".4g"} if answered else {}), "cost": ".4g", "p value": ".4g"}
        rows = [
            [row["window"], *(Estimate.of(row, heading.replace(" ", "_")) for heading in forms)]
            for _, row in best.iterrows()
        ]
        windows = self.data.sizes["window"]
        title = f"The {len(rows)} best of {windows} windows" if windows > 1 else "The window"
        return [TextTable(["window", *forms], rows, title, forms=forms)]

    def record(self) -> dict[str, Any]:
        """Return everything as one JSON record: the head that all acting commands share, and the windows."""
        attrs = self.data.attrs
        act = Act(
            kind="windows",
            conclusion=self.text,
            proved=bool(self.helping),
            model=model_of(attrs),
            data={"prompts": {"name": attrs["data"], "prompts": attrs["prompts"], "tokens": attrs["tokens"]}},
            settings=settings_of(attrs),
        )
        return record_of(act, windows=self.table)

    @property
    def text(self) -> str:
        """Whether any window helps, and which."""
        data, attrs = self.data, self.data.attrs
        answered = "gain" in data
        what = "answers more prompts rightly" if answered else "makes the loss smaller"
        prompts = attrs["answers" if answered else "prompts"]
        windows = int((data["first"] >= 0).sum())
        orders = data.sizes["window"] - windows
        others = f" and {orders} other order{'s' * (orders > 1)}" if orders else ""
        looked = f"{windows} window{'s' * (windows != 1)} run twice in a row{others}, "
        looked += f"{prompts} prompt{'s' * (prompts != 1)}{by_clusters(attrs)}, "
        looked += f"{level_text(float(attrs['level']))} intervals"
        if data.sizes["window"] > 1:
            looked += f" corrected for all {'of them' if orders else 'windows'}"
        if self.helping:
            named = ", ".join(self._describe(name) for name in self.helping[:_NAMED])
            more = f", and {len(self.helping) - _NAMED} more" if len(self.helping) > _NAMED else ""
            verb = "helps" if len(self.helping) == 1 else "help"
            return f"{len(self.helping)} of {looked}: {verb}, since it {what}: {named}{more}."
        value = data["gain"] if answered else -data["cost"]
        nearest = str(data["window"].values[int(value.values.argmax())])
        gained = "to answer more prompts rightly" if answered else "to make the loss smaller"
        return f"No window helps: of {looked}, none is shown {gained}. Nearest: {self._describe(nearest)}."

    def _describe(self, name: str) -> str:
        """Return a window with what it does and the interval of that."""
        window = self.data.sel(window=name)
        if "gain" in self.data:
            full = float(self.data.attrs["full_accuracy"])
            interval = Estimate.of(window, "gain").interval("+.3g")
            return f"{name} ({float(window['accuracy']):.3g} instead of {full:.3g}; {interval})"
        cost = Estimate.of(window, "cost")
        return f"{name} ({cost.value:+.3g} nats; {cost.interval('+.3g')})"


@takes(RepeatScanOptions)
def repeat_scan(
    model: ModelArgument,
    prompts: Source | Prompts,
    *,
    longest: int | None = None,
    orders: Sequence[str] = (),
    over: Over = "tokens",
    resamples: int = 2000,
    level: float = 0.95,
    cluster: str | None = None,
    seed: int = 0,
    beyond_context: bool | None = None,
    add_special_tokens: bool = True,
    chat: ChatForm = False,
    progress: Progress = True,
) -> RepeatScan:
    """Run every window of blocks twice in a row (… first … last, first … last, …), and say whether any helps.

    A window helps where more prompts are answered rightly, or, without answers, where the loss falls, beyond what the
    luckiest of all windows looked at would show by chance (paired bootstrap over prompts, maximum statistic). To shares
    of answers one prompt that gains and one that loses are added, so that a few that agree prove nothing. Windows that
    begin alike are run once: Σ n² + L calls of a block, n = 1 … L, for each batch of prompts.

    Args:
        prompts: as for ``survey``; those with answers judge by them.
        ...: the options of ``RepeatScanOptions``.

    Returns:
        ``scan.text``, ``scan.table``, ``scan.helping``, and ``scan.data`` by ``window``.

    Raises:
        OptionError, PromptError, ModelError: what is asked for cannot be done, or intervals of one prompt, or of one
            answer; raised before any compute.

    Example:
        >>> scan = bathyscope.repeat_scan("shallow", "prompts.jsonl", longest=1, resamples=200)
        >>> scan.table.window.tolist()
        ['0', '1']
    """
    with alone(model):
        ready = loaded(model, prompts)
        schedules = _list_windows(ready.n_blocks, longest)
        schedules |= _read_orders(orders, ready, schedules)
        trial = read_trial(
            ready,
            prompts,
            sampling=Sampling(resamples, level, seed),
            cluster=cluster,
            over=over,
            reading=PromptReading(beyond_context, add_special_tokens, chat),
            title="prompts",
        )
        answered = np.array([bool(prompt.answer_tokens) for prompt in trial.test])
        _require_several_answers(len(answered), int(answered.sum()))
        metrics: tuple[Metric, ...] = ("loss", "right") if answered.any() else ("loss",)
        # The model as it is comes first, and all others are compared with it on the same batches.
        orders_to_run = [Schedule.standard(ready.n_blocks), *(schedule for *_, schedule in schedules.values())]
        with ended_as_interrupted():
            ledger = Ledger(ready, trial.samples, None, over, progress)
            histories = [following(schedule) for schedule in orders_to_run]
            values = ledger.values("test", histories, metrics, title=f"{len(schedules)} windows")
        attrs = {
            **trial.attrs,
            "prompts": len(trial.test),
            "tokens": sum(trial.test.lengths),
            "data": trial.test.dataset,
            "calls": ledger.calls["test"],
        }
        return RepeatScan(_judge_windows(trial.sampling, schedules, values, answered).assign_attrs(attrs))


Windows = dict[str, tuple[int, int, Schedule]]
"""Name → first and last block (−1 for orders that are no window), and the order of the blocks."""


def _judge_windows(sampling: Sampling, schedules: Windows, values: Values, answered: BoolArray) -> xr.Dataset:
    """Return the arrays of a scan.

    Args:
        values: metric → [1 + windows, prompts], the model as it is first.
        answered: [prompts], whether a prompt has an answer; where any has, answers judge, and else the loss.
    """
    cost = simultaneous(values["loss"][1:], sampling)
    data: dict[str, Any] = {"cost": cost.mean, "cost_low": cost.low, "cost_high": cost.high}
    attrs: dict[str, int | float] = {}
    p_value = cost.p_value
    helps = cost.high < 0
    if answered.any():
        right = values["right"][:, answered]
        # Paired by prompt: what is common to all orders, such as a hard prompt, drops out.
        gains = right[1:] - right[0]
        gain = simultaneous_gains(gains, sampling.take(answered))
        data |= {
            "accuracy": right[1:].mean(axis=1),
            "gain": gains.mean(axis=1),
            "gain_low": gain.low,
            "gain_high": gain.high,
        }
        attrs = {"full_accuracy": float(right[0].mean()), "answers": int(answered.sum())}
        p_value = gain.p_value
        helps = gain.low > 0
    orders = [_order_text(schedule) for *_, schedule in schedules.values()]
    data |= {"schedule": np.array(orders, dtype=object), "p_value": p_value, "helps": helps.astype(np.int64)}
    coords = {
        "window": np.array(list(schedules), dtype=object),
        "first": ("window", [first for first, _, _ in schedules.values()]),
        "last": ("window", [last for _, last, _ in schedules.values()]),
    }
    table = labelled(_TABLE, {name: data[name] for name in _TABLE if name in data}, coords)
    return table.assign_attrs(attrs)


def _order_text(schedule: Schedule) -> str:
    """Return an order written out, with the groups of blocks that run in parallel where it has any."""
    return str(schedule) if schedule.groups else f"order:{'-'.join(map(str, schedule))}"


def _require_several_answers(prompts: int, answers: int) -> None:
    """Refuse a single answer: intervals come from answers that differ.

    Raises:
        PromptError: there is one prompt with an answer.
    """
    if answers == 1:
        raise PromptError(
            f"One of {prompts} prompts has an answer, and windows are judged by answers where there are any; an "
            "interval needs at least two. Give more prompts with answers, or none."
        )


def _read_orders(orders: Sequence[str], model: Model, windows: Windows) -> Windows:
    """Return further orders by their text, none of which is tried already: all that are tried widen the intervals.

    Raises:
        OptionError: two texts of one order, or that of a window.
    """
    further: Windows = {}
    for text in orders:
        schedule = _read_order(text, model)
        tried = {**windows, **further}
        same = next((name for name, (*_, other) in tried.items() if other == schedule), None)
        if same is not None:
            what = f"that of the window {same}" if same in windows else repr(same)
            raise OptionError(f"orders: {text!r} is the same order as {what}, which is tried already; leave it out.")
        further[text] = (-1, -1, schedule)
    return further


def _read_order(text: str, model: Model) -> Schedule:
    """Read a further order.

    Raises:
        OptionError: it cannot be read, leaves no block, or is the order that the others are compared with.
        ModelError: a block would run ahead of one whose keys and values it takes.
    """
    schedule = Schedule.parse(text, model.n_blocks)
    if not len(schedule):
        raise OptionError(f"orders: {text!r} leaves no block; give orders in which some run.")
    if schedule.is_standard:
        raise OptionError(
            f"orders: {text!r} is the model's own order, which all others are compared with; leave it out, or give "
            "another order, such as order:0-1-2-1-2-3."
        )
    refusal = refusal_of_schedule(model.anatomy, model.checks, schedule)
    if refusal:
        raise ModelError(
            f"orders: {text!r} cannot run: in this {model.anatomy.family.name} model {refusal}. Leave it out."
        )
    return schedule


def _list_windows(n_blocks: int, longest: int | None) -> Windows:
    """Return every window of at most this many blocks, run twice.

    Raises:
        OptionError: no window is so long.
    """
    if longest is not None and longest > n_blocks:
        raise OptionError(
            f"longest={longest} is out of range; this model has {n_blocks} blocks, allowed: 1 to {n_blocks}."
        )
    reach = longest or n_blocks
    ends = [(i, j) for i in range(n_blocks) for j in range(i, min(n_blocks, i + reach))]
    return {f"{i}…{j}" if j > i else str(i): (i, j, twice(n_blocks, i, j)) for i, j in ends}
