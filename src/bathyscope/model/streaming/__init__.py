"""Models larger than memory: the weights of a block are read when it runs, and let go afterwards."""
