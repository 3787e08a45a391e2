"""Representations of two models compared on the same prompts: CKA, and the best affine maps."""
