"""The part of a page that answers to its reader: the answer, blocks, prompts, tokens, lens and maps of a run, linked.

``answer`` says what a run's numbers mean for who wants to act on them; ``places`` sums them up along blocks;
``content`` and ``pack`` put them into a page; ``assets`` has the scripts that draw them
there, one view a file in ``views/``; ``widget`` has them in a notebook.
"""
