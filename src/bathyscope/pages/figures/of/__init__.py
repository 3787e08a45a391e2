"""One file per figure, named after the measure or the question that it shows."""
