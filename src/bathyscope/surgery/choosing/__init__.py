"""Which blocks can go or run twice: the search on calibration prompts, judged on test prompts, and how sure it is."""
