"""A scheduled model as a plain checkpoint: where its tensors come from, its files, its proof and its card."""
