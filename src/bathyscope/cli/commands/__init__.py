"""One command a file; each is imported when it is asked for, so that ``--help`` needs no model library."""
