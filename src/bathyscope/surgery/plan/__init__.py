"""A plan of ``prune``: what every candidate costs, in arrays, words and tables, and its export."""
