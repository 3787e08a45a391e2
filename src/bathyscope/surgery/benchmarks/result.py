"""What an evaluation gives: labelled arrays over schedules, tasks and metrics, paired with the normal model."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bathyscope.core.arrays import FloatArray
from bathyscope.core.result import TabledResult
from bathyscope.core.tables import TextTable
from bathyscope.errors import warn
from bathyscope.labels import Label, Table, labelled
from bathyscope.prompts.continued import MOST_CUT_OFF
from bathyscope.statistics.bootstrap import Interval, mean_interval
from bathyscope.statistics.sampling import Sampling
from bathyscope.statistics.shares import are_shares, share_difference_interval, share_interval
from bathyscope.surgery.benchmarks.shelf import Score
from bathyscope.surgery.benchmarks.variants import NORMAL, Variant
from bathyscope.surgery.checkpoint.json_record import Act, model_of, record_of
from bathyscope.surgery.plan.task_table import COLUMNS, task_rows
from bathyscope.surgery.plan.task_table import CUT_OFF as CUT_OFF_COLUMNS

SOURCE = "lad2024, layer interventions: benchmarks"
_of_metric = partial(Label, "schedule task metric", units="as the metric", source=SOURCE)
_of_document = partial(Label, "schedule task document", source=SOURCE)
_TABLE: Table = {
    "value": _of_metric("metric of the model under the schedule"),
    "stderr": _of_metric("standard error over documents"),
    "difference": _of_metric("metric under the schedule minus that of the normal model, on the same documents"),
    "difference_stderr": _of_metric("standard error of the difference over documents"),
    "correct": _of_document("document answered rightly (0 or 1)"),
    "loglikelihood": _of_document("log-likelihood of the right answer", "nats", "Σ log p(token | before)"),
    "cut_off": Label("schedule task", "share of written answers that the limit of tokens ended", source="own"),
}
CUT_OFF = "cut_off"
_CUT_OFF_TITLE = "cut off"
_LEGEND = (
    "Value ± standard error over documents; in brackets the difference from the normal model on the same documents, ± "
    "its standard error (none where documents agree). loglikelihood: of the right answer, in nats."
)
# What says whether a document was answered rightly, the first that a task has.
_CORRECT = ("acc", "exact_match")


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(TabledResult):
    """Benchmarks of one model under schedules.

    Args:
        data: over (schedule, task, metric) ``value``, ``stderr``, ``difference`` from the normal model and
            ``difference_stderr``, both over the same documents; over (schedule, task, document) ``correct`` and
            ``loglikelihood`` of the right answer. Coordinates of ``schedule``: ``kind``, ``block``, ``length``.
            NaN where a task has no such metric or a result is missing.
        scores: the results as they are on disk, with every answer's log-likelihood.
    """

    data: xr.Dataset
    scores: tuple[Score, ...]
    figure = "evaluation"

    @property
    def _outline(self) -> str:
        sizes = self.data.sizes
        schedules, tasks = (f"{sizes[name]} {name}{'s' * (sizes[name] != 1)}" for name in ("schedule", "task"))
        return f" of {self.data.attrs['model']}: {schedules}, {tasks}"

    @property
    def text(self) -> str:
        """What was asked, in a sentence."""
        tasks, schedules = (self.data[name].values.tolist() for name in ("task", "schedule"))
        others = [name for name in schedules if name != NORMAL]
        cut_off = tell_cut_answers(self.data)
        ending = f" {cut_off[0]}" if cut_off else ""
        summary = f"{len(tasks)} task{'s' * (len(tasks) != 1)} ({', '.join(tasks)})"
        if not others:
            return f"{summary} of the normal model.{ending}"
        listed = ", ".join(others[:3]) + (f" and {len(others) - 3} more" if len(others) > 3 else "")
        schedules_text = f"{len(others)} schedule{'s' * (len(others) != 1)} ({listed})"
        return f"{summary} of the normal model and under {schedules_text}.{ending}"

    def record(self) -> dict[str, Any]:
        """Return everything as one JSON record: the head that all acting commands share, and the results."""
        attrs = self.data.attrs
        others = [name for name in self.data["schedule"].values.tolist() if name != NORMAL]
        act = Act(
            kind="evaluation",
            conclusion=self.text,
            model=model_of(attrs),
            schedule=others[0] if len(others) == 1 else None,
            settings={name: attrs[name] for name in ("arguments", "limit", "harness", "chat") if name in attrs},
        )
        return record_of(act, results=self.to_dataframe())

    def to_dataframe(self) -> pd.DataFrame:
        """Return a row for every schedule, task and metric that the task has."""
        frame = self.data.drop_dims("document").to_dataframe().reset_index()
        first = ["schedule", "kind", "block", "length", "task", "metric"]
        ordered = frame[[*first, *(name for name in frame.columns if name not in first)]]
        return ordered[ordered["value"].notna()].reset_index(drop=True)

    def tables(self) -> list[TextTable]:
        """Return a table for every task: a row for each schedule, a column for each metric, and for cut answers."""
        frame = self.to_dataframe()
        tasks = list(dict.fromkeys(frame["task"]))
        return [_task_table(frame[frame["task"] == task], task, [_LEGEND] * (task == tasks[-1])) for task in tasks]


def _task_table(frame: pd.DataFrame, task: str, caption: Sequence[str]) -> TextTable:
    metrics = list(dict.fromkeys(frame["metric"]))
    row_of = {(row.schedule, row.metric): row for row in frame.itertuples()}
    rows = [
        [
            "normal" if schedule == NORMAL else schedule,
            *(_write_value(row_of.get((schedule, metric)), schedule == NORMAL) for metric in metrics),
        ]
        for schedule in dict.fromkeys(frame["schedule"])
    ]
    cut_off = frame.drop_duplicates("schedule")[CUT_OFF].tolist() if CUT_OFF in frame else []
    if not any(share == share for share in cut_off):
        return TextTable(["Schedule", *metrics], rows, task, caption)
    return TextTable(
        ["Schedule", *metrics, _CUT_OFF_TITLE],
        [[*row, None if math.isnan(share) else share] for row, share in zip(rows, cut_off)],
        task,
        [f"{_CUT_OFF_TITLE}: share of answers that the limit of tokens ended.", *caption],
        forms={_CUT_OFF_TITLE: ".1%"},
    )


def _write_value(row: Any, is_normal: bool) -> str | None:
    if row is None:
        return None
    text = f"{row.value:.4g}{_write_error(row.stderr)}"
    if is_normal or math.isnan(row.difference):
        return text
    return f"{text} ({row.difference:+.3g}{_write_error(row.difference_stderr)})"


def _write_error(stderr: float) -> str:
    """Return nothing where there is no error, as of one document, and where documents agree, which says little."""
    return f" ± {stderr:.2g}" if stderr > 0 else ""


def assemble(variants: Sequence[Variant], scores: Sequence[Score], settings: Mapping[str, Any]) -> Evaluation:
    """Return the arrays of finished results, in the order of ``variants``; those without any result are left out.

    Of ``settings`` what netCDF can hold becomes attributes.
    """
    by_place = {(score["schedule"], score["task"]): score for score in scores}
    finished = [variant for variant in variants if any(variant.name == schedule for schedule, _ in by_place)]
    tasks = list(dict.fromkeys(score["task"] for score in scores))
    metrics = sorted({name for score in scores for name in score["metrics"]})
    longest = max((len(score["documents"]) for score in scores), default=0)
    sizes = {"schedule": len(finished), "task": len(tasks), "metric": len(metrics), "document": longest}
    table = {name: np.full([sizes[dim] for dim in label.always], np.nan) for name, label in _TABLE.items()}
    rows = {variant.name: row for row, variant in enumerate(finished)}
    for (schedule, task), score in by_place.items():
        if schedule not in rows:
            continue
        place = (rows[schedule], tasks.index(task))
        table[CUT_OFF][place] = _cut_share(score)
        normal = by_place.get((NORMAL, task))
        for name, result in score["metrics"].items():
            entry = (*place, metrics.index(name))
            table["value"][entry], table["stderr"][entry] = number(result["value"]), number(result["stderr"])
            if normal is not None and is_mean(score, name) and is_mean(normal, name):
                table["difference"][entry], table["difference_stderr"][entry] = _paired_difference(score, normal, name)
        for name, metric in (("correct", _correct_metric(score)), ("loglikelihood", "loglikelihood")):
            values = per_document(score, metric)
            # Tasks differ in their numbers of documents; the places behind the last one stay NaN.
            table[name][place][: len(values)] = values
    coords = {
        "schedule": np.array([variant.name for variant in finished], dtype=str),
        "kind": ("schedule", np.array([variant.kind for variant in finished], dtype=str)),
        "block": ("schedule", np.array([variant.block for variant in finished], dtype=np.int64)),
        "length": ("schedule", np.array([variant.length for variant in finished], dtype=np.int64)),
        "task": np.array(tasks, dtype=str),
        "metric": np.array(metrics, dtype=str),
        "document": np.arange(longest),
    }
    attrs = {name: value for name, value in settings.items() if isinstance(value, str | int | float)}
    return Evaluation(labelled(_TABLE, table, coords).assign_attrs(attrs), tuple(scores))


def _cut_share(score: Score) -> float:
    """Return the share of answers that the limit of tokens ended.

    NaN for tasks whose answers are given, and for results of earlier versions.
    """
    ends = [document[CUT_OFF] for document in score["documents"] if CUT_OFF in document]
    return float(np.mean(ends)) if ends else math.nan


def warn_of_cut_answers(evaluation: Evaluation) -> None:
    """Warn of tasks of which more answers were cut off than a score is good for."""
    for sentence in tell_cut_answers(evaluation.data):
        warn(sentence)


def tell_cut_answers(data: xr.Dataset) -> list[str]:
    """Return a sentence for each task with many cut answers; the worst schedule stands for the others."""
    sentences = []
    for task in data["task"].values.tolist():
        shares = data[CUT_OFF].sel(task=task).values
        many = np.flatnonzero(np.nan_to_num(shares) > MOST_CUT_OFF)
        if not many.size:
            continue
        worst = many[np.argmax(shares[many])]
        schedule = str(data["schedule"].values[worst])
        # where the model ends its answers, another order of blocks may end them later, or may have lost what ends them
        normal = dict(zip(data["schedule"].values.tolist(), shares, strict=True)).get(NORMAL, math.nan)
        advice = (
            f"the normal model's {normal:.0%}: this order of blocks ends answers later, or never; a larger "
            "max_gen_toks in the task's generation_kwargs tells which"
            if normal <= MOST_CUT_OFF
            else "set a larger max_gen_toks in the task's generation_kwargs"
        )
        others = f" and in more than {MOST_CUT_OFF:.0%} under {many.size - 1} more" if many.size > 1 else ""
        sentences.append(
            f"{task}: the limit of tokens ended {shares[worst]:.0%} of answers "
            f"{'of the normal model' if schedule == NORMAL else f'under {schedule}'}{others}, and scores read what "
            f"there was; {advice}."
        )
    return sentences


def _correct_metric(score: Score) -> str:
    """Return the metric that says whether an answer is right; of written answers the first reading."""
    return next(
        (name for metric in _CORRECT for name in score["metrics"] if name.partition(",")[0] == metric), _CORRECT[0]
    )


def per_document(score: Score, metric: str) -> np.ndarray:
    """Return a metric of each document [documents], NaN where it has none; ``loglikelihood`` is the right answer's."""
    if metric != "loglikelihood":
        return np.array([number(document.get(metric)) for document in score["documents"]])
    right = [(document["loglikelihoods"], document["right"]) for document in score["documents"]]
    return np.array([np.nan if index is None else values[index] for values, index in right])


def is_mean(score: Score, metric: str) -> bool:
    """Return whether a metric is the mean of the documents' own values, so that a difference pairs documents."""
    values = per_document(score, metric)
    if not len(values) or np.isnan(values).any():
        return False
    return math.isclose(number(score["metrics"][metric]["value"]), values.mean(), rel_tol=1e-9, abs_tol=1e-12)


def _paired_difference(score: Score, normal: Score, metric: str) -> tuple[float, float]:
    gaps = per_document(score, metric) - per_document(normal, metric)
    stderr = gaps.std(ddof=1) / math.sqrt(len(gaps)) if len(gaps) > 1 else math.nan
    return float(gaps.mean()), float(stderr)


def number(value: float | None) -> float:
    """Return a number of a result on disk, NaN for none."""
    return math.nan if value is None else float(value)


_NONE = Interval(math.nan, math.nan)


def against_full(evaluation: Evaluation, schedule: str, *, resamples: int, level: float, seed: int) -> xr.Dataset:
    """Compare the normal model with ``schedule``, in a row for every task and metric.

    Shares of documents have Wilson's interval, and their difference the paired one of Agresti and Min; other means a
    bootstrap over documents. Metrics that are no mean of the documents' own values have none. Of answers that were
    written the shares that the limit of tokens ended stand with them.
    """
    rows: dict[tuple[str, str], list[float]] = {}
    cut_off: list[tuple[float, float]] = []
    mean = partial(mean_interval, sampling=Sampling(resamples, level, seed))

    def interval(values: FloatArray) -> Interval:
        return share_interval(values, level=level) if are_shares(values) else mean(values)

    for full in (score for score in evaluation.scores if score["schedule"] == NORMAL):
        pruned = next(s for s in evaluation.scores if (s["schedule"], s["task"]) == (schedule, full["task"]))
        for metric in full["metrics"]:
            numbers = [number(score["metrics"][metric]["value"]) for score in (full, pruned)]
            ends = [_NONE, _NONE, _NONE]
            gap = math.nan
            if is_mean(full, metric) and is_mean(pruned, metric):
                with_all, without = (per_document(score, metric) for score in (full, pruned))
                gap = float((without - with_all).mean())
                # A bootstrap of shares has no width where all documents agree; Wilson's and Agresti's intervals have.
                shares = are_shares(with_all) and are_shares(without)
                both = share_difference_interval(without, with_all, level=level) if shares else mean(without - with_all)
                ends = [interval(with_all), interval(without), both]
            cut_off.append((_cut_share(full), _cut_share(pruned)))
            rows[full["task"], metric] = [
                float(len(full["documents"])),
                *(end for value, interval_ends in zip([*numbers, gap], ends) for end in (value, *interval_ends)),
            ]
    columns = np.array(list(rows.values()), dtype=np.float64).T
    values = dict(zip(COLUMNS, columns)) | {"documents": columns[0].astype(np.int64)}
    if not np.isnan(cut_off).all():
        values |= dict(zip(CUT_OFF_COLUMNS, np.array(cut_off).T))
    return task_rows(list(rows), values, {"level": level, "resamples": resamples, "seed": seed, "schedule": schedule})
