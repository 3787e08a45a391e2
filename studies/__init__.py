"""The project's own studies: each answers one question with the instrument, and none is shipped with it."""
