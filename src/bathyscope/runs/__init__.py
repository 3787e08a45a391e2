"""Results on disk and in memory, and the verdict."""
