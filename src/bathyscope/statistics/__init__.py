"""Numbers in, estimates with intervals out; numpy, scipy and statsmodels only."""
