"""The interactive part of a page: linked views of blocks, prompts, tokens, lens and maps of a run.

``content`` and ``pack`` put a run's numbers into a page, ``assets`` the scripts that draw them, one file in
``views/`` for each view; ``html`` writes the page around them. ``widget`` shows the same views in a notebook.
"""
