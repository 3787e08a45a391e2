"""The depth profile: the one picture of a run, from one source of numbers, as SVG, figure, badge and card."""
