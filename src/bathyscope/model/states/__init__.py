"""Stored states of a model that was served elsewhere: their files, the head that reads them, and what they can tell."""
