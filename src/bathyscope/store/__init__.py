"""Runs in memory and on disk: atomic shards with checksums, resuming, reading."""
