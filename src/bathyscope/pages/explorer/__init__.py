"""The interactive part of a page: the answer, and linked views of blocks, prompts, tokens, lens and maps of a run.

``answer`` says what a run's numbers mean for a reader who wants to act on them. ``content`` and ``pack`` put the
numbers into a page, and ``assets`` the scripts that draw them, one file in ``views/`` for each view. ``widget`` shows
the same views in a notebook.
"""
