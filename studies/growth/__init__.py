"""Do blocks that a model is grown by come into use."""
