"""Settings of trainings that make a forward collect more than logits change no measurement, and stay as they were."""

from __future__ import annotations

import numpy as np
import pytest
from support import zoo
from support.zoo import moe

import bathyscope
from bathyscope.model.anatomy.mode import evaluating

SETTINGS = {"output_router_logits": True, "output_hidden_states": True, "use_cache": False, "return_dict": False}
EXPERTS = tuple(entry.name for entry in moe.ENTRIES)


@pytest.mark.parametrize("name", zoo.swept(("gpt2", *EXPERTS), frozenset({"gpt2", "mixtral"})))
def test_a_model_set_to_collect_is_measured_as_without(name: str) -> None:
    with zoo.entry(name).within():
        hf = zoo.build(name)
        prompts = zoo.prompts(hf, (9, 12))
        expected = bathyscope.survey(hf, prompts, ["lens", "drop"], progress=False)
        config = hf.config.get_text_config()
        settings = {key: value for key, value in SETTINGS.items() if hasattr(config, key)}
        before = {key: getattr(config, key) for key in settings}
        try:
            for key, value in settings.items():
                setattr(config, key, value)
            run = bathyscope.survey(hf, prompts, ["lens", "drop"], progress=False)
            assert {key: getattr(config, key) for key in settings} == settings
        finally:
            for key, value in before.items():
                setattr(config, key, value)
    for measure in expected.measures:
        for variable, values in expected[measure].data_vars.items():
            np.testing.assert_array_equal(run[measure][variable], values, f"{measure}.{variable}")


def test_settings_are_put_back_behind_a_failure() -> None:
    hf = zoo.build("mixtral")
    hf.config.output_router_logits = True
    try:
        with pytest.raises(KeyError), evaluating(hf):
            raise KeyError(hf.config.output_router_logits)
        assert hf.config.output_router_logits is True
    finally:
        hf.config.output_router_logits = False
