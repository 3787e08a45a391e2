"""Members of measures under the names that earlier versions had for them, as measures of other packages have them."""

from __future__ import annotations

from typing import Any


class FormerName:
    """The name that a member had in earlier versions.

    A class that overrides it overrides the member, and ``super()`` reaches what stood there before.

    Args:
        name: the member's name now.

    Example:
        >>> class Above:
        ...     begin = FormerName("read")
        ...     def read(self):
        ...         return "above"
        ...     def __init_subclass__(cls):
        ...         take_former_names(cls)
        >>> class Below(Above):
        ...     def begin(self):
        ...         return f"below, and {super().begin()}"
        >>> Below().read()
        'below, and above'
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.former = ""

    def __set_name__(self, owner: type, former: str) -> None:
        self.former = former

    def __get__(self, instance: Any, owner: type) -> Any:
        """Return the member; where classes override the former name, that of the class above them all."""
        for cls in owner.__mro__:
            # Python comes here for such a class only when it asks by super().
            if vars(cls).get(self.former, self) is self and self.name in vars(cls):
                member = vars(cls)[self.name]
                return member.__get__(instance, owner) if hasattr(member, "__get__") else member
        raise AttributeError(f"{owner.__name__!r} has no attribute {self.former!r}, which is called {self.name!r} now")


def take_former_names(cls: type) -> None:
    """Let what a class calls by a former name be its member."""
    members = [member for base in cls.__mro__ for member in vars(base).values() if isinstance(member, FormerName)]
    for member in members:
        if member.former in vars(cls) and member.name not in vars(cls):
            setattr(cls, member.name, vars(cls)[member.former])
