"""A run as files to keep: its figures, single panels, badge and card."""
