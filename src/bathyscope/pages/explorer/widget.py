"""The views of runs in a notebook: the scripts of a page as a widget."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from bathyscope.core.text import elided
from bathyscope.errors import OptionError, did_you_mean, legible
from bathyscope.pages.explorer import assets
from bathyscope.pages.explorer.content import content
from bathyscope.pages.explorer.still import still_html, still_picture
from bathyscope.pages.head.drawing import profile_style
from bathyscope.pages.head.section import profile_html
from bathyscope.runs.names import run_names
from bathyscope.runs.run import Run

if TYPE_CHECKING:
    from anywidget import AnyWidget

_SELECTED: Final = ("run", "block", "boundary", "prompt", "token")
"""What a reader can select in the views."""


def explorer(
    runs: Sequence[Run], *, names: Sequence[str] | None = None, text: bool = True, cluster: str | None = None
) -> AnyWidget:
    """Make the widget behind ``Run.explore``.

    Args:
        runs: the reader switches between them.

    Raises:
        OptionError: anywidget is not installed; another number of names than of runs; a label that makes no clusters.
    """
    if find_spec("anywidget") is None:
        raise OptionError(
            "Exploring a run in a notebook needs anywidget: pip install 'bathyscope[notebook]'. "
            "Without it, bathyscope.report([run], 'page.html') writes the same views as a page."
        )
    for run in runs:
        if not isinstance(run, Run):
            raise OptionError(
                f"explore() takes runs, not {elided(repr(run), 40)} of type {type(run).__name__}. Give what "
                "bathyscope.open returns."
            )
    names = run_names(runs) if names is None else list(names)
    if len(names) != len(runs):
        raise OptionError(f"names={names} is not allowed; give {len(runs)} names, one for each run.")
    run_contents = [
        {
            "name": name,
            "text": content(run, name, text=text, cluster=cluster),
            "profile": str(profile_html(run, cluster)),
        }
        for run, name in zip(runs, names, strict=True)
    ]
    views = _make_widget_class()(runs=run_contents)
    views.set_still(runs, names)
    return views


@cache
def _make_widget_class() -> Any:
    """Make the widget's class, which needs anywidget to be installed."""
    # The base class comes from an optional package, so the class can only be defined after the check above.
    import anywidget
    import traitlets

    class Explorer(anywidget.AnyWidget):
        """``selection`` holds run, block, boundary, prompt and token; reader and program can both change it."""

        _esm = assets.module()
        style = traitlets.Unicode(assets.style() + profile_style()).tag(sync=True)
        runs: Any = traitlets.List().tag(sync=True)
        selection: Any = traitlets.Dict().tag(sync=True)

        def set_still(self, runs: Sequence[Run], names: Sequence[str]) -> None:
            """Keep what viewers without scripts show, such as the sites that render notebooks."""
            # Traits are synchronised; this is not one, and stays in Python until the widget is displayed.
            self._still = (tuple(runs), tuple(names))

        def __repr__(self) -> str:
            return legible(f"<Explorer of {', '.join(self._still[1])}>") if hasattr(self, "_still") else "<Explorer>"

        def _repr_mimebundle_(self, **options: Any) -> Any:
            bundle = super()._repr_mimebundle_(**options)
            if bundle is None or not hasattr(self, "_still"):
                return bundle
            data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
            picture = still_picture(self._still[0][0])
            fallback = {"text/html": still_html(*self._still, picture)}
            if picture is not None:
                fallback["image/png"] = base64.b64encode(picture).decode("ascii")
            return {**data, **fallback}, metadata

        @traitlets.validate("selection")
        def _check_selection(self, proposal: Any) -> Any:
            unknown = [name for name in proposal["value"] if name not in _SELECTED]
            if unknown:
                raise OptionError(
                    f"{unknown[0]!r} cannot be selected.{did_you_mean(str(unknown[0]), _SELECTED)} Allowed: "
                    f"{', '.join(_SELECTED)}."
                )
            return proposal["value"]

    return Explorer
