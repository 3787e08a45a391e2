"""Prompts as a model reads them, and generated problems with one right answer.

from bathyscope.extend.prompts import task, tokenized
"""

from bathyscope.model.bundled import prompts_path as bundled_prompts
from bathyscope.model.reading import tokenized
from bathyscope.prompts.harness.documents import harness_prompts
from bathyscope.prompts.prompts import Prompts
from bathyscope.prompts.tasks import Problem, task

__all__ = ["Problem", "Prompts", "bundled_prompts", "harness_prompts", "task", "tokenized"]
