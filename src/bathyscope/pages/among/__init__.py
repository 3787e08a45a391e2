"""Where a run's model is among models whose depths papers print, and among those measured for this package."""
