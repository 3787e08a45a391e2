"""The numbers that the papers print, measured on the papers' own models by one command on a machine with a GPU."""
