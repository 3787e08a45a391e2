"""Tasks that need depth: problems with one right answer, a bound on sequential steps, and controls against shortcuts.

``task("pointer_chasing", hops=(1, 8)).problem(0, seed=0, split="train")`` is a ``Problem``; ``vocabulary`` makes
tokenizers in which every word of a task is one token.
"""

from bathyscope.prompts.tasks.problem import SPLITS, Example, Problem, Split, Task, first_of_each
from bathyscope.prompts.tasks.registry import TASKS, task

__all__ = ["SPLITS", "TASKS", "Example", "Problem", "Split", "Task", "first_of_each", "task"]
