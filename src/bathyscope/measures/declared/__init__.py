"""What each measure says of itself, one file a measure: its options and its variables. Nothing here imports torch."""
