"""A declaration of a family of one's own is refused where it cannot mean anything."""

from dataclasses import replace
from typing import Any

import pytest
from support import zoo

from bathyscope.errors import ModelError, OptionError
from bathyscope.extend import Family, Site
from bathyscope.model import load


@pytest.mark.parametrize("types", ["llama", None, 5, ("llama", 5)])
def test_the_types_of_a_family_are_a_list_of_texts(types: Any) -> None:
    with pytest.raises(OptionError, match=r"Family 'mine': model_types=.*; give one such as"):
        Family("mine", types)


@pytest.mark.parametrize("path", [3, None, ("self_attn", 3), "", " ", ()])
def test_the_path_of_a_site_is_a_text_or_several(path: Any) -> None:
    with pytest.raises(OptionError, match=r"Site: path=.* is no path; give a text such as 'self_attn', or several"):
        Site(path)


MINE = Family("mine", ("llama",))


@pytest.mark.parametrize(
    ("part", "site", "where"),
    [
        ("mlp", Site("mpl"), "mlp is to be read at mpl"),
        ("attention", Site(("mixer", "attn")), "attention is to be read at mixer or attn"),
    ],
)
def test_a_site_that_is_in_no_block_is_refused(part: str, site: Any, where: str) -> None:
    words = rf"mine: {where}, which no block of LlamaForCausalLM has; its parts: .*self_attn, mlp"
    with pytest.raises(ModelError, match=words):
        load(zoo.build("llama"), family=replace(MINE, **{part: site}))


def test_the_nearest_part_of_a_block_is_named() -> None:
    with pytest.raises(ModelError, match=r"Did you mean 'mlp'\?"):
        load(zoo.build("llama"), family=replace(MINE, mlp=Site("mpl")))


def test_a_site_may_be_absent_from_some_blocks_and_what_comes_next_to_it_from_all() -> None:
    sites: dict[str, Any] = {"attention": Site(("mixer", "self_attn")), "mlp": Site("mlp", also=(Site("shared_mlp"),))}
    sites["others"] = (Site("entry"),)
    assert load(zoo.build("llama"), family=replace(MINE, **sites)).checks.parts


@pytest.mark.parametrize(("part", "site"), [("mlp", "mlp"), ("attention", ("self_attn",)), ("others", ("adapter",))])
def test_a_part_of_a_family_is_a_site(part: str, site: Any) -> None:
    with pytest.raises(OptionError, match=rf"Family 'mine': {part}=.* is no Site; give one such as Site\('mlp'\)"):
        Family("mine", ("llama",), **{part: site})
