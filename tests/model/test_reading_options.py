"""`tokenized` refuses what is no model and options that mean nothing, before it reads a prompt."""

import pytest

from bathyscope.errors import OptionError
from bathyscope.extend.prompts import harness_prompts, tokenized


def test_a_name_is_no_model():
    with pytest.raises(
        OptionError, match=r"takes a model that was loaded; 'gpt2' given. Give bathyscope.load\(FOLDER\)"
    ):
        tokenized("gpt2", [[3, 4, 5]])


@pytest.mark.parametrize(
    "options",
    [
        {"seed": 1.5},
        {"seed": -1},
        {"seed": 2**70},
        {"beyond_context": "no"},
        {"add_special_tokens": "false"},
    ],
)
def test_an_option_that_is_not_allowed_is_refused(options):
    (name,) = options
    with pytest.raises(OptionError, match=name):
        tokenized(None, [[3, 4, 5]], **options)


@pytest.mark.parametrize("chat", ["yes", 1])
def test_a_chat_is_a_truth_value_or_options(chat):
    from support import waves

    with pytest.raises(OptionError, match=r"chat=.* must be True, False, or a dict"):
        tokenized(waves.loaded("llama"), [[3, 4, 5]], chat=chat)


@pytest.mark.parametrize("count", [0, -1, 1.5, "3"])
def test_a_count_of_documents_that_is_none_is_refused(count):
    with pytest.raises(OptionError, match="count"):
        harness_prompts("arc_easy", count=count)
