"""Gradients of predictions with respect to the residual stream and to what blocks add to it."""
