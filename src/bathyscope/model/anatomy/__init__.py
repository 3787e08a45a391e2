"""Where a family keeps blocks, contributions and readout, how blocks are recorded and replayed, and the checks."""
