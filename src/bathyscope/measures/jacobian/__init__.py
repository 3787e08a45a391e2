"""The Jacobian lens: fitting it to prompts, its matrices, and its files."""
