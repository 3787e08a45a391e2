"""What ``prune`` returns: candidates with what they cost on prompts that chose none of them, and what follows."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr

from bathyscope.core.cycles import Cycle, cycle_in
from bathyscope.core.result import PageResult
from bathyscope.core.strict import read_json
from bathyscope.core.tables import TextTable, markdown_of
from bathyscope.core.text import literal_markdown, without_folders
from bathyscope.errors import OptionError, PruningError, describe_value
from bathyscope.model.identity import ModelIdentity
from bathyscope.runs.folder import MOST_DEEP, folder_path
from bathyscope.schedule import Schedule
from bathyscope.surgery.checkpoint.card import on_data
from bathyscope.surgery.checkpoint.json_record import Act, data_of, model_of, record_of, settings_of
from bathyscope.surgery.plan.arrays import COLUMNS, TABLE
from bathyscope.surgery.plan.departure import WritingDeparture
from bathyscope.surgery.plan.price import Price
from bathyscope.surgery.plan.stability_text import block_of
from bathyscope.surgery.plan.tables import again_table, candidate_table, change_table, task_table, transfer_table
from bathyscope.surgery.plan.task_table import task_sentences
from bathyscope.surgery.plan.text import is_like_chance, place_of_better, refusal, sentences
from bathyscope.surgery.scheduled.speed import Speeds


@dataclass(frozen=True, repr=False)
class Plan(PageResult):
    """Which blocks can be left out, what that costs, and how sure that is.

    Args:
        data: by ``candidate`` what is in ``table``, and ``cost`` by (candidate, prompt).
        model: what was pruned, for ``export``; None = the model of the name that the plan holds.
        tasks_data: by ``row`` (task, metric) what is in ``tasks``; None = no task was asked.
        speeds: tokens per second of the full and the pruned model; None = not timed.
        departure: where the pruned model, writing by itself, departs from the full one; None = ``calibration`` was no
            ``written:…``.
        stored_in: the folder of the plan, as it was given; None = it is in memory alone.

    Example:
        >>> plan = bathyscope.prune("model", "prompts.jsonl", "test.jsonl", drop=1, resamples=200)
        >>> plan.left_out == f"drop:{(set(range(4)) - set(plan.schedule)).pop()}"
        True
        >>> plan.table.columns.tolist()[:4]
        ['candidate', 'subset', 'calibration_cost', 'test_cost']
        >>> plan.text.startswith(("Measured on", "Not proved on")), plan.proved in (True, False)
        (True, True)
        >>> plan.before_after["quantity"].tolist()[:2]
        ['blocks', 'loss (nats per token)']
        >>> plan.record()["kind"], plan.to_dataframe().equals(plan.table)
        ('plan', True)
        >>> plan.tables()[0].title, plan.heading
        ('Costs in nats per token', 'What leaving out costs: model')
        >>> plan.models[0].name
        'model'
        >>> plan.fits, plan.leaves_blocks, plan.as_schedule() == plan.schedule
        (True, True, True)
        >>> plan.require_choice()
        >>> plan.source("test"), plan.place.endswith("model")
        ('test.jsonl', True)
        >>> plan.evidence.count("| random |")
        1
        >>> plan.cycle is None
        True
        >>> bool(plan.price.cost == plan.table["test_cost"][0]), plan.stored_in is None
        (True, True)
        >>> 0 <= plan.chosen_again <= 1, plan.blocks_again.columns.tolist()
        (True, ['unit', 'chosen_again', 'left_out'])
        >>> plan.transfer
        Traceback (most recent call last):
        ...
        bathyscope.errors.OptionError: This plan has no domains; name several (--calibration code=a.txt).
        >>> plan.tasks
        Traceback (most recent call last):
        ...
        bathyscope.errors.OptionError: This plan was asked no tasks; give evaluate=['arc_easy'] (--evaluate).
        >>> plan.export("pruned").name
        'pruned'
    """

    data: xr.Dataset
    model: Any = field(default=None, compare=False)
    tasks_data: xr.Dataset | None = None
    speeds: Speeds | None = field(default=None, compare=False)
    departure: WritingDeparture | None = None
    stored_in: Path | None = field(default=None, compare=False)
    kind = "plan"
    figure = "plan"

    @property
    def _outline(self) -> str:
        return f" for {self.data.attrs['model']}: {self.left_out if self.fits else 'no block is shown to go'}"

    @property
    def heading(self) -> str:
        """The heading of its section on a page."""
        return f"What leaving out costs: {without_folders(str(self.data.attrs['model']))}"

    @property
    def models(self) -> tuple[ModelIdentity, ...]:
        """The model that was pruned, as far as the plan tells it."""
        return (ModelIdentity.of_record(self.data.attrs),)

    @property
    def fits(self) -> bool:
        """Whether the choice stays within ``max_cost``; where it does not, nothing is to be left out."""
        return bool(self.data.attrs.get("fits", 1))

    @property
    def proved(self) -> bool:
        """Whether the choice carries over to the test prompts: within ``max_cost``, and nothing is shown to be better.

        Where the loss falls for sure, the text may be foreign to the model, and proves nothing; nor do prompts that
        cannot tell the choice from random subsets, unless a bound on the cost is what they prove.
        """
        is_as_good = place_of_better(self.data) is None
        return self.fits and is_as_good and not self.price.falls and not is_like_chance(self.data)

    @property
    def price(self) -> Price:
        """What the choice costs on the test prompts, with the losses before and after."""
        return Price.of(self.data)

    @property
    def left_out(self) -> str:
        """The choice, such as ``drop:2,drop:5``; the first block that was tried where none is shown to go."""
        return str(self.data["subset"].values[0])

    @property
    def cycle(self) -> Cycle | None:
        """Which loop and block each step is, of a model that runs blocks several times; None for others."""
        return cycle_in(self.data.attrs)

    @property
    def leaves_blocks(self) -> bool:
        """Whether whole blocks are left out, and not parts of them."""
        return "block" in str(self.data.attrs["parts"])

    @property
    def schedule(self) -> Schedule:
        """The order of the blocks that stay; all of them where none can go.

        Raises:
            OptionError: parts of blocks are left out, which no order of blocks can say.
        """
        if not self.leaves_blocks:
            raise OptionError(
                f"This plan leaves out parts of blocks ({self.left_out}), which no schedule can say. Write the model "
                "with plan.export(FOLDER), or choose among whole blocks: parts='block'."
            )
        n_blocks = int(self.data.attrs["n_blocks"])
        return Schedule.parse(self.left_out if self.fits else "standard", n_blocks)

    def as_schedule(self) -> Schedule:
        """Return the schedule, for calls that act on it.

        Raises:
            PruningError: no block can go.
            OptionError: parts of blocks are left out.
        """
        self.require_choice()
        return self.schedule

    def require_choice(self) -> None:
        """Refuse a plan in which nothing can go.

        Raises:
            PruningError: with the numbers that say so.
        """
        if not self.fits:
            raise PruningError(refusal(self.data))

    @property
    def chosen_again(self) -> float:
        """Share of bootstraps of the calibration prompts in which the choice is the cheapest; NaN where not known.

        Among the subsets that were measured. Source: own.
        """
        return float(self.data["chosen_again"].values[0]) if "chosen_again" in self.data else math.nan

    @property
    def blocks_again(self) -> pd.DataFrame:
        """A row for every block or part that may go: its share of bootstraps, and whether the choice leaves it out.

        For models that run blocks several times also the ``loop`` and the ``block_in_loop`` of that run.
        """
        if "blocks_again" not in self.data:
            return pd.DataFrame({"unit": [], "chosen_again": [], "left_out": []})
        units = self.data["unit"].values.tolist()
        chosen = set(self.left_out.split(","))
        steps = [block_of(unit) for unit in units]
        cycle = self.cycle
        addresses = {} if cycle is None else {"loop": cycle.loop, "block_in_loop": cycle.block_in_loop}
        return pd.DataFrame(
            {
                "unit": units,
                **{name: [values[step] for step in steps] for name, values in addresses.items()},
                "chosen_again": self.data["blocks_again"].values,
                "left_out": [unit in chosen for unit in units],
            }
        )

    @property
    def transfer(self) -> pd.DataFrame:
        """A row for every choice and domain: its cost there, and the excess over the domain's own choice, in nats.

        Raises:
            OptionError: the calibration prompts have no domains.
        """
        if "transfer" not in self.data:
            raise OptionError("This plan has no domains; name several (--calibration code=a.txt).")
        names = [name for name, label in TABLE.items() if label.always == ("chosen_on", "domain")]
        return self.data[names].to_dataframe().reset_index()

    def to_dataframe(self) -> pd.DataFrame:
        """Return a row for every candidate: costs in nats, intervals, p against the best, and whether that is told."""
        # what earlier versions wrote lacks some columns
        columns = [name for name in COLUMNS if name in self.data]
        return self.data[columns].to_dataframe().reset_index().astype({"indistinguishable": bool})

    def tables(self) -> list[TextTable]:
        """Return the candidates, what the choice changes, how sure it is, and its tasks, as far as they were asked."""
        speed = "" if self.speeds is None else self.speeds.text
        tables = [
            candidate_table(self.data),
            change_table(self.before_after, self.left_out, speed) if self.fits else None,
            None if self.departure is None else self.departure.table(self.left_out),
            again_table(self.data),
            transfer_table(self.data) if "transfer" in self.data else None,
            None if self.tasks_data is None else task_table(self.tasks_data, self.left_out),
        ]
        return [table for table in tables if table is not None and table.rows]

    @property
    def tasks(self) -> pd.DataFrame:
        """A row for every task and metric: the full and the pruned model, and their paired difference, with intervals.

        Raises:
            OptionError: no task was asked.
        """
        if self.tasks_data is None:
            raise OptionError("This plan was asked no tasks; give evaluate=['arc_easy'] (--evaluate).")
        frame = self.tasks_data.to_dataframe().reset_index(drop=True)
        return frame[["task", "metric", *(name for name in frame.columns if name not in ("task", "metric"))]]

    @property
    def text(self) -> str:
        """What was found, in sentences; the first says what the choice costs, and whether that is proved."""
        departs = [] if self.departure is None else [self.departure.text]
        tasks = [] if self.tasks_data is None else task_sentences(self.tasks_data)
        return " ".join([*sentences(self.data), *departs, *tasks])

    @property
    def before_after(self) -> pd.DataFrame:
        """What the choice changes: blocks, loss on the test prompts, parameters, size and speed, before and after."""
        attrs = self.data.attrs
        rows: list[tuple[Any, ...]] = []
        dropped = int(attrs["size"]) if self.leaves_blocks else 0
        rows.append(("blocks", int(attrs["n_blocks"]), int(attrs["n_blocks"]) - dropped))
        price = self.price
        if not math.isnan(price.before):  # not in plans of older versions
            rows.append((f"{price.loss.removeprefix('the ')} ({price.unit})", price.before, price.after))
        if "parameters" in attrs:
            rows.append(("parameters", int(attrs["parameters"]), int(attrs["parameters_after"])))
            rows.append(("size (MiB)", float(attrs["bytes"]) / 2**20, float(attrs["bytes_after"]) / 2**20))
        if self.speeds is not None:
            rows.append(("tokens per second", self.speeds.before, self.speeds.after))
        return pd.DataFrame(rows, columns=["quantity", "before", "after"])

    def record(self) -> dict[str, Any]:
        """Return everything as one JSON record: the head that all acting commands share, and the tables."""
        attrs = self.data.attrs
        settings = settings_of(attrs, "parts", "over", "how", "written")
        settings |= {"max_cost": attrs["max_cost"]} if attrs.get("max_cost") else {"drop": attrs["size"]}
        settings |= settings_of(attrs, "max_share")
        act = Act(
            kind="plan",
            conclusion=self.text,
            proved=self.proved,
            model=model_of(attrs),
            schedule=str(self.schedule) if self.leaves_blocks else None,
            data=data_of(attrs, ("calibration", "test")),
            settings=settings,
        )
        record = record_of(
            act,
            before_after=self.before_after,
            speed={} if self.speeds is None else self.speeds.record(),
            written={} if self.departure is None else self.departure.record(),
            candidates=self.table,
            chosen_again={} if math.isnan(self.chosen_again) else {"choice": self.chosen_again},
            blocks_again=self.blocks_again,
            transfer=[] if "transfer" not in self.data else self.transfer,
            tasks=[] if self.tasks_data is None else self.tasks,
        )
        if self.fits and not self.leaves_blocks:
            record["parts_left_out"] = self.left_out.split(",")
        return record

    def source(self, role: str) -> Any:
        """Return where the calibration or test prompts came from, as it was given; None where that was not text."""
        if role not in ("calibration", "test"):
            raise OptionError(f"role={describe_value(role)} is unknown; allowed: calibration, test.")
        source = self.data.attrs.get(f"{role}_source")
        return None if source is None else read_json(str(source), MOST_DEEP)

    def export(self, folder: str | Path) -> Path:
        """Write the model without what is left out as a checkpoint for plain transformers (``bathyscope.export``).

        Blocks are left out of the checkpoint; of parts, the weights that write into the residual stream become 0.

        Raises:
            PruningError: no block can go.
            ModelError: the model has other weights now than those that the plan was made of; a part that is not
                written by matrices of its own.
            OptionError, ModelError, StoreError: as ``bathyscope.export``.
        """
        from bathyscope.surgery.plan.export import export_plan

        self.require_choice()
        return export_plan(self, folder_path(folder, "folder"))

    @property
    def place(self) -> str:
        """Where the model is: the folder that it was pruned from, wherever one stands now, or its name."""
        folder = str(self.data.attrs.get("folder", ""))
        return folder if folder and Path(folder).is_dir() else str(self.data.attrs["model"])

    @property
    def evidence(self) -> str:
        """The text, the data and the tables as Markdown, for a model card."""
        acts = {"calibration": "Chosen", "test": "Judged"}
        prompts = data_of(self.data.attrs, list(acts))
        sentences = [on_data(act, prompts[role]) for role, act in acts.items()]
        return "\n".join([literal_markdown(self.text), "", " ".join(sentences), *markdown_of(self.tables())])
