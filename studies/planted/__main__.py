"""``python -m studies.planted [FILE]``: the table into a Markdown file between its marks, or printed."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from studies.planted.judging import table
from studies.planted.page import markdown, write_table


def main(arguments: list[str]) -> None:
    """Surveys all planted models, which takes about a quarter of a minute."""
    # threads that share matrices this small mostly wait for one another
    torch.set_num_threads(1)
    cells = table()
    if arguments:
        write_table(Path(arguments[0]), cells)
    else:
        print(markdown(cells))


if __name__ == "__main__":
    main(sys.argv[1:])
