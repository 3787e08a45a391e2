from __future__ import annotations

from support.lab import data_root, task_recipe, text_recipe

__all__ = ["data_root", "task_recipe", "text_recipe"]
