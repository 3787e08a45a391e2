"""The members of a depth family: which models there are, by recipe and seed, and whether they differ in depth alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from bathyscope_lab.folder import RECIPE, SUMMARY
from bathyscope_lab.models.config import SharedLayerConfig
from bathyscope_lab.recipe import Recipe
from bathyscope_lab.recipes import read_recipe
from bathyscope_lab.train import train

from bathyscope.errors import ModelError, OptionError

FAMILY: Final = ("depth_6", "depth_12", "depth_24", "depth_12_peri", "depth_12_post", "depth_12_mixed")
_BLOCK_KEYS: Final = ("num_hidden_layers", "n_layer", "group_size", "repeats")
_FREE: Final = ("name", "seed", "tokenizer", "threads", "compile", "evaluation", "saving")
"""What members of one series may differ in, besides blocks: nothing that changes what a model is trained to be. (That
they see the same tokens is known when they are surveyed.)"""


@dataclass(frozen=True)
class Member:
    """One model.

    Args:
        recipe: it is, or was, trained by.
        folder: of its checkpoint.
        given: it was trained before.
    """

    recipe: Recipe
    folder: Path
    given: bool

    @property
    def name(self) -> str:
        return f"{self.recipe.name}-seed-{self.recipe.seed}"

    @property
    def norms(self) -> str:
        """Where the norms stand: pre, peri, post or mixed; else the model type, or the checkpoint it came from."""
        model = self.recipe.model
        if model is None:
            return f"{self.recipe.base}"
        kind = str(model.get("type"))
        if kind == "hyperclovax":
            return "peri" if model.get("use_post_norm") else "pre"
        if kind.startswith("bathyscope_") and model.get("post_norm_blocks"):
            return "post, of the sum" if _post_norm_share(model) == 1 else "mixed"
        return {"llama": "pre", "olmo2": "post"}.get(kind, kind)


def members_of(
    recipes: Sequence[str], seeds: Sequence[int], models: Sequence[str], changes: Sequence[str], out: Path
) -> list[Member]:
    """Models that are given, and those that recipes and seeds make under ``out``.

    Args:
        changes: of the recipes, ``KEY=VALUE``; what is given was trained without them.

    Raises:
        OptionError: no member, two of one name, or members of one series that differ in more than blocks and seed.
        ModelError: a folder that is given holds no finished training.
    """
    found = [_given(Path(folder).expanduser()) for folder in models]
    for name in recipes:
        for seed in seeds:
            recipe = read_recipe(name, [*changes, f"seed={seed}"])
            found.append(Member(recipe, out / "models" / f"{recipe.name}-seed-{seed}", given=False))
    if not found:
        raise OptionError("The family has no member; give recipes with at least one seed, or models.")
    names = [member.name for member in found]
    for name in names:
        if names.count(name) > 1:
            raise OptionError(f"The family has {name} twice; give each recipe and seed once, by recipes or by models.")
    _require_alike(found)
    return found


def _given(folder: Path) -> Member:
    missing = [name for name in (RECIPE, SUMMARY) if not (folder / name).is_file()]
    if missing:
        raise ModelError(
            f"models: {folder} holds no {' and no '.join(missing)}; give folders that bathyscope lab train finished."
        )
    content = yaml.safe_load((folder / RECIPE).read_text(encoding="utf-8"))
    return Member(Recipe.from_dict(content), folder, given=True)


def _require_alike(members: Sequence[Member]) -> None:
    """Members of one series, which are those with the same place of norms, differ in blocks and seed alone."""
    first: dict[str, Member] = {}
    for member in members:
        reference = first.setdefault(member.norms, member)
        ours, theirs = (_flat(_deciding(one.recipe)) for one in (member, reference))
        unlike = [key for key in ours | theirs if ours.get(key) != theirs.get(key)]
        if unlike:
            raise OptionError(
                f"{member.name} and {reference.name} both have {member.norms} norms and differ in "
                f"{', '.join(unlike)}, so that a trend would not be one of depth. Give members that differ in blocks "
                "and seed alone."
            )


def _deciding(recipe: Recipe) -> dict[str, Any]:
    content = {key: value for key, value in recipe.to_dict().items() if key not in _FREE}
    model = content["model"] or {}
    content["model"] = {key: value for key, value in model.items() if key not in _BLOCK_KEYS}
    if content["model"].pop("post_norm_blocks", 0):
        # the same share of the blocks; in repeated groups the kinds take turns
        content["model"] |= {"post_norm_blocks / group_size": _post_norm_share(model), "repeats": model.get("repeats")}
    return content


def _post_norm_share(model: Mapping[str, Any]) -> float:
    """The share of blocks that norm the sum; of a group whose size is not given, that of the type's default."""
    size = model.get("group_size") or SharedLayerConfig.group_size
    return float(model["post_norm_blocks"]) / float(size)


def _flat(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in content.items():
        found |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return found


def trained(
    members: Sequence[Member], data: str | Path | None, device: str | None, progress: bool
) -> list[dict[str, Any]]:
    """What each member's training came to; what is not trained yet, is.

    Raises:
        OptionError, PromptError, ModelError, StoreError: as ``train``.
    """
    summaries = []
    for member in members:
        if member.given:
            summaries.append(dict(json.loads((member.folder / SUMMARY).read_text(encoding="utf-8"))))
        else:
            texts = data if member.recipe.task is None else None
            summaries.append(train(member.recipe, member.folder, texts, device, progress).summary)
    return summaries
