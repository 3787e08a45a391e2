"""The views of runs in a notebook: the scripts of a page as a widget."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from bathyscope.errors import OptionError
from bathyscope.pages.explorer import assets
from bathyscope.pages.explorer.content import content
from bathyscope.runs.names import run_names

if TYPE_CHECKING:
    from anywidget import AnyWidget

    from bathyscope.runs.run import Run


def explorer(
    runs: Sequence[Run], *, names: Sequence[str] | None = None, text: bool = True, cluster: str | None = None
) -> AnyWidget:
    """The widget behind ``Run.explore``.

    Args:
        runs: what can be switched between.

    Raises:
        OptionError: anywidget is not installed; not as many names as runs; a label that makes no clusters.
    """
    if find_spec("anywidget") is None:
        raise OptionError(
            "Exploring a run in a notebook needs anywidget, which is not installed: "
            "pip install 'bathyscope[notebook]'. bathyscope.report([run], 'page.html') writes the same views as a page."
        )
    names = run_names(runs) if names is None else list(names)
    if len(names) != len(runs):
        raise OptionError(f"names={names} is not allowed; give {len(runs)} names, one a run.")
    held = [
        {"name": name, "text": content(run, name, text=text, cluster=cluster)}
        for run, name in zip(runs, names, strict=True)
    ]
    return _widget()(runs=held)


@cache
def _widget() -> Any:
    """Its class, which can be made only where anywidget is installed."""
    import anywidget
    import traitlets

    class Explorer(anywidget.AnyWidget):
        """``selection`` is what is chosen: names and numbers of run, block, boundary, prompt and token, both ways."""

        _esm = assets.module()
        style = traitlets.Unicode(assets.style()).tag(sync=True)
        runs: Any = traitlets.List().tag(sync=True)
        selection: Any = traitlets.Dict().tag(sync=True)

    return Explorer
