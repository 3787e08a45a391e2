"""bathyscope."""
