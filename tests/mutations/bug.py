"""A small bug that the tests must notice: it changes one place, as a slip of the hand would."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bug:
    """One slip.

    Args:
        file: path of the file inside of the package, without its ending.
        name: what goes wrong, in a few words joined by hyphens.
        right: text of the file that occurs once.
        wrong: what stands there instead.
        test: a file below ``tests``, or a test in one, that fails.
    """

    file: str
    name: str
    right: str
    wrong: str
    test: str

    @property
    def path(self) -> str:
        """The file, from the root of the checkout."""
        return f"src/bathyscope/{self.file}.py"

    @property
    def room(self) -> str:
        """The room of the package that holds the file; "" = the package's own folder."""
        return self.file.rpartition("/")[0].partition("/")[0]

    @property
    def named(self) -> str:
        """The test, from the root of the checkout."""
        return f"tests/{self.test}"

    def put_into(self, text: str) -> str:
        """The file's text with the bug in it.

        Raises:
            ValueError: the right text does not occur exactly once; the table must follow the code.
        """
        if text.count(self.right) != 1:
            raise ValueError(f"{self.name}: {self.right!r} occurs {text.count(self.right)} times in {self.path}")
        return text.replace(self.right, self.wrong)
