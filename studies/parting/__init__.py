"""Where a model and its changed copy part: one trained block, fewer digits, a short fine-tuning."""
