"""The laboratory: small models made by recipe, on texts or on tasks that need depth, and models with shared layers."""
