"""Quantised checkpoints: weights stored in few bits, unpacked tensor by tensor into plain numbers."""
