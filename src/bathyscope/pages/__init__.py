"""What people look at: figures, pages, the explorer, a paper's tables and figures."""

from typing import TYPE_CHECKING, Any

from bathyscope.core.lazy import homes, load_name

if TYPE_CHECKING:
    from bathyscope.pages.figures.of.maps import draw as draw_maps
    from bathyscope.pages.figures.options import FigureOptions as FigureOptions
    from bathyscope.pages.files.export import save_figures as save_figures
    from bathyscope.pages.files.export import save_side_by_side as save_side_by_side
    from bathyscope.pages.page import report as report
    from bathyscope.runs.depth_rows import effective_depth_rows as effective_depth_rows

# matplotlib takes a second to import; printing a table must not wait for it
_LAZY = homes(__file__)

__all__ = ["draw_maps"]
__all__ += sorted(_LAZY.keys() - set(__all__))


def __getattr__(name: str) -> Any:
    return load_name(__name__, _LAZY, name)
