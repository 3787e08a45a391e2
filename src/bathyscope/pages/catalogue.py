"""Everything that can be chosen by name: measures, data sets, presets, families, estimators and panels."""

from typing import Any, Literal

from bathyscope.core.calls import checked

Kind = Literal["measures", "datasets", "presets", "families", "estimators", "panels"]
Row = dict[str, Any]


@checked
def names(kind: Kind) -> list[Row]:
    """List everything of one kind that can be named, with a short description of each.

    Args:
        kind: ``measures`` and ``presets`` of a survey, ``datasets`` of prompts, ``families`` of models,
            ``estimators`` of effective depth, or ``panels`` that ``plot`` draws, with the variables that each shows.

    Raises:
        OptionError: another kind.

    Example:
        >>> [row["name"] for row in bathyscope.names("presets")][:3]
        ['csordas2025', 'hu2025', 'lad2024']
    """
    # Each case imports its own registry: a list of presets must not wait for matplotlib, nor one of panels for models.
    match kind:
        case "measures":
            from bathyscope.measures.registry import DEFAULT, MEASURES, plug_ins

            return [
                {
                    "name": measure.name,
                    "measures": measure.summary,
                    "by_default": measure.name in DEFAULT,
                    "needs_answers": measure.needs_answers,
                    "requires": ", ".join(measure.requires),
                }
                for measure in [*MEASURES.values(), *plug_ins().values()]
            ]
        case "datasets":
            from bathyscope.prompts.datasets import REGISTRY

            return [
                {
                    "name": dataset.name,
                    "on_the_hub": dataset.hub or f"no: {dataset.origin}",
                    "options": ", ".join(dataset.options),
                    "format_of": dataset.source,
                }
                for dataset in REGISTRY.values()
            ]
        case "presets":
            from bathyscope.surveying.papers.presets import PRESETS

            return [
                {"name": name, "measures": ", ".join(preset.measures), "seed": preset.seed, "notes": preset.notes}
                for name, preset in PRESETS.items()
            ]
        case "families":
            from bathyscope.model.anatomy.registry import families, plugged_in

            return [
                {
                    "name": family.name,
                    "model_types": ", ".join(family.model_types),
                    "refused": family.refused or family.exception,
                }
                for family in sorted([*families(), *plugged_in()], key=lambda family: family.name)
            ]
        case "panels":
            from bathyscope.pages.figures.panels import panel_rows

            return [dict(row) for row in panel_rows()]
        case "estimators":
            from bathyscope.runs.depth_table import estimator_name, index_name
            from bathyscope.statistics.effective_depth import ESTIMATORS

            return [{"name": name, "reads": estimator_name(name), "index_of": index_name(name)} for name in ESTIMATORS]
