"""``repair``: from maps at the cuts to training next to them, every rung measured on prompts that fitted none."""
