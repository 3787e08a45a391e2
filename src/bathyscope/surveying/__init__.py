"""Turn a request into a plan and carry it out, here or on many machines."""
