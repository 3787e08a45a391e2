"""A declaration of a family of one's own is refused where it cannot mean anything."""

from typing import Any

import pytest

from bathyscope.errors import OptionError
from bathyscope.extend import Family, Site


@pytest.mark.parametrize("types", ["llama", None, 5, ("llama", 5)])
def test_the_types_of_a_family_are_a_list_of_texts(types: Any) -> None:
    with pytest.raises(OptionError, match=r"Family 'mine': model_types=.*; give one such as"):
        Family("mine", types)


@pytest.mark.parametrize("path", [3, None, ("self_attn", 3)])
def test_the_path_of_a_site_is_a_text_or_several(path: Any) -> None:
    with pytest.raises(OptionError, match=r"Site: path=.* is no path; give a text such as 'self_attn', or several"):
        Site(path)
