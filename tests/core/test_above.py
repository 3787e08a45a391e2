"""Code of higher rooms by name."""

import pytest

from bathyscope.core import above


def test_a_name_leads_to_what_was_entered_and_is_loaded_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(above, "_PLACES", {"kept": "math:pi"})
    above.enter_above({"floor": "math:floor", "none": "no_module_of_this_name:attribute"})
    assert above.from_above("floor")(2.5) == 2
    with pytest.raises(ModuleNotFoundError, match="no_module_of_this_name"):
        above.from_above("none")
    with pytest.raises(AttributeError, match="module 'bathyscope' has no attribute 'ceil'"):
        above.from_above("ceil")
