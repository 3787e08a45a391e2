"""Depth while a model trains: surveys that leave the training untouched, and the course that they make."""
