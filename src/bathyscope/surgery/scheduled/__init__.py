"""The model under a schedule, in memory: run within a context, copied with the weights it shares, and timed."""
