"""Stopping early: what drafts from inner boundaries would save when the whole model checks them."""
