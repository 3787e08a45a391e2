"""Models larger than memory: blocks whose weights are read when they run, and let go behind them."""
