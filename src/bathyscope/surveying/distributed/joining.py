"""``join``: parts of a survey become the run that a single process would have written.

Joining checks that all parts belong to one plan, takes each shard as it is, and adds what is derived from all of them,
for which no weights are needed (except for a census of neurons).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from bathyscope.core.calls import checked
from bathyscope.core.commands import name_command
from bathyscope.core.common_options import FOLDER_OF_RUN
from bathyscope.core.paths import require_writable
from bathyscope.errors import ModelError, OptionError, StoreError, describe_value
from bathyscope.model.identity import ModelIdentity, compare_models, identity_of
from bathyscope.options import require_no_dict
from bathyscope.runs.difference import difference, is_withheld, listed, version_difference
from bathyscope.runs.folder import folder_path, refuse_foreign, verified
from bathyscope.runs.manifest import RANKS, RUN, FileEntry, Identity, Manifest, load_manifest
from bathyscope.runs.prompts import PROMPTS, decode_prompts
from bathyscope.runs.run import Run
from bathyscope.runs.shards import read_shard
from bathyscope.runs.stored_run import CONTROLS, control_folders
from bathyscope.runs.writer import RunWriter

if TYPE_CHECKING:
    from bathyscope.surveying.plan import SurveyPlan


@checked
def join(parts: Sequence[str | Path], out: Annotated[str | Path, FOLDER_OF_RUN]) -> Run:
    """Join the parts of one survey to the run that a single process would have written.

    Only what is derived from all shards is computed again; every file's checksum is verified. Controls of the parts are
    joined too. A join that was interrupted goes on when it is requested again.

    Args:
        parts: folders that ``survey(..., part="3/16", out=...)`` wrote.

    Raises:
        OptionError: no folder, or one given twice.
        StoreError: parts of different surveys or library versions; shards that no part has, of the run or of a control
            that some parts lack; a file that is altered; a model that is not as it was, or a measure from outside of
            the package; ``out`` cannot be written or holds something else.
        ModelError: the configuration of the model cannot be found, from which results are derived.

    Example:
        >>> for part in ("1/2", "2/2"):
        ...     where = f"runs/part-{part[0]}"
        ...     _ = bathyscope.survey(model, "prompts.jsonl", ["lens"], where, part=part, batch_tokens=64)
        >>> len(bathyscope.join(["runs/part-1", "runs/part-2"], "runs/joined").prompts)
        12
    """
    if isinstance(parts, str | Path):
        parts = [parts]
    if not isinstance(parts, Iterable):
        raise OptionError(
            f"parts={describe_value(parts)} is no list of folders; give a list of those that survey(part=…) wrote."
        )
    require_no_dict(parts, "parts")
    folders = [folder_path(part, "parts") for part in parts]
    if not folders:
        raise OptionError(
            f"There is nothing to join; give the folders of the parts ({name_command('join')} PART... --out RUN)."
        )
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise OptionError("A part is given twice; give each folder once.")
    if len(folders) == 1 and load_manifest(folders[0]).record.finished is not None:
        raise OptionError(
            f"{str(folders[0])!r} is a whole run and no part of one; open it, or give the folders of parts."
        )
    target = folder_path(out, "out")
    if target.resolve() in {folder.resolve() for folder in folders}:
        raise OptionError(f"out={str(target)!r} is one of the parts. Give another folder for the joined run (--out).")
    refuse_foreign(target, RUN)
    require_writable(target, holds="a run")
    labels = sorted({path.name for folder in folders for path in control_folders(folder)})
    gathered = {"": _Gathered.of(folders)}
    for label in labels:
        _require_in_each(label, folders, gathered[""])
        gathered[label] = _Gathered.of(_with_control(label, folders))
    plan = gathered[""].plan()
    runs = {
        label: gathered_shards.joined(target / CONTROLS / label if label else target, plan)
        for label, gathered_shards in gathered.items()
    }
    run = runs.pop("")
    return replace(run, controls=runs) if runs else run


@dataclass(frozen=True)
class _Gathered:
    """All shards of one run, wherever they lie."""

    manifest: Manifest
    shards: Mapping[int, tuple[Path, FileEntry]]
    prompts: tuple[Path, FileEntry]

    @classmethod
    def of(cls, folders: Sequence[Path]) -> _Gathered:
        manifests = [load_manifest(folder) for folder in folders]
        first = manifests[0]
        for folder, manifest in zip(folders[1:], manifests[1:]):
            _require_one_survey(folders[0], first, folder, manifest)
        shards = {
            # a shard that several parts hold is the same in all of them
            index: (folder, entry)
            for folder, manifest in zip(folders, manifests)
            for index, entry in manifest.record.shards.items()
            if (folder / entry.file).exists()
        }
        planned = first.identity.plan
        # a folder with a manifest may have lost files, which the manifest still lists
        missing = [index for index in range(len(planned)) if index not in shards]
        if missing:
            ranges = ", ".join(
                f"{index} (prompts {planned[index][0]} to {planned[index][1] - 1})" for index in missing[:5]
            )
            more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
            where = f"in none of the {len(folders)} folders" if len(folders) > 1 else f"not in {str(folders[0])!r}"
            raise StoreError(
                f"{len(missing)} of {len(planned)} shards are {where}: {ranges}{more}. "
                "Finish the parts that should hold them (the same command goes on where it stopped), then join again."
            )
        texts = [(f, m.record.files[PROMPTS]) for f, m in zip(folders, manifests) if PROMPTS in m.record.files]
        if not texts:
            raise StoreError(
                "None of the folders holds the survey's prompts, so that nothing can be derived from all of them. Give "
                "the command of any part again: it keeps them."
            )
        numbers = joint_ranks([manifest.record.notes for manifest in manifests])
        # a run that was computed whole has no such note
        notes = first.record.notes if numbers == [1] else {**first.record.notes, RANKS: numbers}
        return cls(first.with_record(notes=notes), shards, texts[0])

    def plan(self) -> SurveyPlan:
        """Plan the survey again, on a model without weights where no measure looks at them."""
        from bathyscope.measures.registry import MEASURES, make
        from bathyscope.model import load
        from bathyscope.surveying.asking import Survey
        from bathyscope.surveying.outlining import outline

        identity, notes = self.manifest.identity, self.manifest.record.notes
        foreign = [name for name in identity.measures if name not in MEASURES]
        if foreign:
            raise StoreError(
                f"{', '.join(foreign)} comes from outside the package, and a join does not run code that a folder "
                "names. Survey the same prompts by one process instead, without part."
            )
        path, entry = self.prompts
        prompts = decode_prompts(verified(path, entry.file, entry.sha256), identity)
        # Nothing is computed on a measure's own prompts any more; those without texts have the survey's in their place.
        options = {
            name: {
                key: prompts.as_given() if is_withheld(value) else value
                for key, value in measure_options.items()
                if key not in ("reference", "reference_hash")
            }
            for name, measure_options in identity.measures.items()
        }
        measures = [make(MEASURES[name], measure_options) for name, measure_options in options.items()]
        if any(measure.derived and measure.looks_at_weights for measure in measures):
            model = load(identity.model, revision=identity.revision, dtype=identity.dtype)
            _require_unchanged(identity, identity_of(model))
        else:
            model = outline(identity.model, identity.dtype, identity.revision)
            _require_unchanged(identity, identity_of(model))
            # only the live model shows it, so that the parts note it
            model = replace(model, anatomy=replace(model.anatomy, parallel=bool(notes.get("parallel"))))
        keeps_text = identity.keep_text is not False
        request = Survey(
            measures, seed=identity.seed, batch_tokens=identity.batch_tokens, beyond_context=True, keep_text=keeps_text
        )
        return request.plan(model, prompts)

    def joined(self, out: Path, plan: SurveyPlan) -> Run:
        """Write the run to ``out``, and return it."""
        from bathyscope.surveying.execution import derive

        record = self.manifest.record
        as_recorded = {"command": record.command, "notes": record.notes, "versions": record.versions}
        with RunWriter.open(out, asdict(self.manifest.identity), as_recorded) as writer:
            path, entry = self.prompts
            if not writer.is_finished or PROMPTS in writer.lost:
                writer.attach(PROMPTS, entry.file, verified(path, entry.file, entry.sha256))
            if writer.is_finished:
                return writer.run()
            for index in writer.missing:
                folder, entry = self.shards[index]
                marks = self.manifest.identity.marks(index)
                writer.write(index, read_shard(folder, entry.file, entry.sha256, marks))
            return writer.finish(derive(plan, writer.merged()))


def require_joinable(identity: Identity) -> None:
    """Refuse parts of a model whose configuration a join would not find: what is derived there needs it.

    Raises:
        ModelError: a model in memory, under a name that leads to no configuration or to another.
    """
    from bathyscope.surveying.outlining import outline

    try:
        agreement = compare_models(
            identity.of_model, identity_of(outline(identity.model, identity.dtype, identity.revision)), "this one", "it"
        )
        reason = f"leads to another ({agreement.text})" if agreement.differences else ""
    except ModelError:
        reason = "leads to none"
    if reason:
        raise ModelError(
            f"part: parts are joined by the model's configuration, and {identity.model!r} {reason}. Save a model that "
            "is in memory (save_pretrained) and give its folder, or survey without part."
        )


def joint_ranks(notes: Iterable[Mapping[str, Any]]) -> list[int]:
    """Return over how many processes the model of any part was split, each number once; 1 = it was whole.

    Args:
        notes: those of the parts' records.
    """
    return sorted({number for part in notes for number in part.get(RANKS) or [1]})


def _require_unchanged(identity: Identity, here: ModelIdentity) -> None:
    """Require the model that the parts were computed with, for results derived here; old runs do not tell all of it."""
    agreement = compare_models(identity.of_model, here, "the parts", "this one")
    if not agreement.differences:
        return
    what = "weights" if "weights" in agreement.differences else "configuration"
    raise StoreError(
        f"The {what} of {identity.model!r} here {'are' if what == 'weights' else 'is'} not what the parts were "
        f"computed with, and results would be derived from it ({agreement.text}). Join where the model is as it was "
        "(or restore its files); the parts themselves are whole."
    )


def _with_control(label: str, folders: Sequence[Path]) -> list[Path]:
    """Return the folders of a control in those parts that have it."""
    places = [folder / CONTROLS / label for folder in folders]
    return [place for place in places if place.is_dir()]


def _require_in_each(label: str, folders: Sequence[Path], run: _Gathered) -> None:
    """Refuse parts of which some were surveyed without a control, where shards of it are missing for that.

    Args:
        run: the shards of the run itself, which are cut as those of its controls.
    """
    lacking = [folder for folder in folders if not (folder / CONTROLS / label).is_dir()]
    stored = {index for place in _with_control(label, folders) for index in load_manifest(place).record.shards}
    if lacking and len(stored) < len(run.shards):
        names = ", ".join(repr(str(folder)) for folder in lacking[:3])
        more = f" and {len(lacking) - 3} more" if len(lacking) > 3 else ""
        raise StoreError(
            f"The control {label} was surveyed for {len(folders) - len(lacking)} of {len(folders)} parts, and not for "
            f"{names}{more}. Give the command of each part the same --control (control=…): what is there already is "
            "not computed again. Then join again."
        )


def _require_one_survey(folder: Path, first: Manifest, other: Path, second: Manifest) -> None:
    names = (str(folder), str(other))
    lines = difference(first.identity, second.identity, *names)
    lines = lines or version_difference(first.record.versions, second.record.versions, *names)
    if lines:
        raise StoreError(
            f"{str(folder)!r} and {str(other)!r} are no parts of one survey:\n{listed(lines)}\n"
            "Join parts that the same command wrote, with the same versions; only --part and --out may differ."
        )
