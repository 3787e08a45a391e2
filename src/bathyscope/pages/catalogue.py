"""What there is to choose from: measures, data sets, presets, families, estimators and panels."""

from typing import Any, Literal

from bathyscope.options import checked

Kind = Literal["measures", "datasets", "presets", "families", "estimators", "panels"]
Row = dict[str, Any]


@checked
def names(kind: Kind) -> list[Row]:
    """Everything of one kind that may be named, with a word about each.

    Args:
        kind: ``measures`` and ``presets`` of a survey, ``datasets`` of prompts, ``families`` of models,
            ``estimators`` of effective depth, or ``panels`` that ``plot`` draws, with the variables that each shows.

    Raises:
        OptionError: another kind.

    Example:
        >>> [row["name"] for row in bathyscope.names("presets")][:3]
        ['csordas2025', 'hu2025', 'lad2024']
    """
    match kind:
        case "measures":
            from bathyscope.measures.registry import DEFAULT, MEASURES, plug_ins

            return [
                {
                    "name": one.name,
                    "measures": one.summary,
                    "by_default": one.name in DEFAULT,
                    "needs_answers": one.needs_answers,
                    "requires": ", ".join(one.requires),
                }
                for one in [*MEASURES.values(), *plug_ins().values()]
            ]
        case "datasets":
            from bathyscope.prompts.datasets import REGISTRY

            return [
                {
                    "name": one.name,
                    "on_the_hub": one.hub or f"no: {one.origin}",
                    "options": ", ".join(one.options),
                    "format_of": one.source,
                }
                for one in REGISTRY.values()
            ]
        case "presets":
            from bathyscope.surveying.papers.presets import PRESETS

            return [
                {"name": name, "measures": ", ".join(one.measures), "seed": one.seed, "notes": one.notes}
                for name, one in PRESETS.items()
            ]
        case "families":
            from bathyscope.model.anatomy.registry import families, plugged_in

            return [
                {"name": one.name, "model_types": ", ".join(one.model_types), "refused": one.refused or ""}
                for one in sorted([*families(), *plugged_in()], key=lambda one: one.name)
            ]
        case "panels":
            from bathyscope.pages.panels import panel_rows

            return [dict(row) for row in panel_rows()]
        case "estimators":
            from bathyscope.pages.table import estimator_name, index_name
            from bathyscope.statistics.effective_depth import ESTIMATORS

            return [{"name": name, "reads": estimator_name(name), "index_of": index_name(name)} for name in ESTIMATORS]
