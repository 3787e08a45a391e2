"""What studies share: how a recipe is checked, and how an experiment becomes a command."""
