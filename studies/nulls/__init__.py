"""What of a model's depth is due to its training: every reading beside the same architecture, never trained."""
