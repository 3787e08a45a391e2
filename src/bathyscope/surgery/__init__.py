"""Act on depth: choose, prove, export, repair, benchmark, exit early."""
