"""Names of a package that are imported when they are first asked for: those that it imports for type checkers alone."""

import ast
import importlib
import sys
from pathlib import Path
from typing import Any


def homes(file: str) -> dict[str, str]:
    """Name → ``module:attribute`` of all that is under ``if TYPE_CHECKING`` in the file of a package."""
    statements = ast.parse(Path(file).read_text(encoding="utf-8")).body
    imports = [statement for guard in statements if isinstance(guard, ast.If) for statement in guard.body]
    return {
        alias.asname or alias.name: f"{statement.module}:{alias.name}"
        for statement in imports
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }


def load_name(package: str, names: dict[str, str], name: str) -> Any:
    """Import one of those names: what a package's ``__getattr__`` returns."""
    if name not in names:
        # with both, Python says which name of the package is near
        raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules.get(package))
    module, _, attribute = names[name].partition(":")
    return getattr(importlib.import_module(module), attribute)
