"""Running a model's blocks in another order or number, inside its own forward."""
