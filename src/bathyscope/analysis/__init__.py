"""Questions about several runs, two models or labelled data; each returns one labelled dataset."""
