"""Many histories through the blocks at once; gradients back."""
