"""The instruments of 2026 tried out: the Jacobian lens, sure choices, what models write, and surveys until sure."""
