"""``python -m bathyscope.lab.planted [FILE]``: the table into a Markdown file between its marks, or printed."""

from __future__ import annotations

import sys
from pathlib import Path

from bathyscope.lab.planted.judging import table
from bathyscope.lab.planted.page import markdown, write_table


def main(arguments: list[str]) -> None:
    """Surveys all planted models, which takes about half a minute."""
    cells = table()
    if arguments:
        write_table(Path(arguments[0]), cells)
    else:
        print(markdown(cells))


if __name__ == "__main__":
    main(sys.argv[1:])
