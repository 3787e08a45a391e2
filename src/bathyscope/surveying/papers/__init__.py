"""The papers: presets, published numbers and figures, faults of published code, predictions."""
