"""Which rows a measure needs, what it observes, which labelled numbers result."""
