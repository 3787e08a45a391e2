"""The head of a run: its depth profile as SVG, from one source of numbers, with its sentences and the answer."""
