"""Bugs in what is asked: prompts as they are written, padded and stored."""

from __future__ import annotations

from bug import Bug

BUGS: tuple[Bug, ...] = (
    Bug(
        "prompts/chat",
        "contents-are-never-given-as-parts",
        "forms = [frozenset[str](), frozenset(markers)]",
        "forms = [frozenset[str]()]",
        "prompts/test_chat.py::test_contents_are_given_as_parts_where_the_template_takes_them_so",
    ),
    Bug(
        "prompts/chat",
        "a-text-that-depends-on-what-it-holds-is-not-compared",
        "if _words(question) not in _words(rendered.removeprefix(before)):",
        "if not rendered:",
        "prompts/test_chat.py::test_the_refusal_says_what_was_written",
    ),
    Bug(
        "prompts/chat",
        "the-template-keeps-its-empty-thinking",
        """_OPEN_THINKING.sub("", _EMPTY_THINKING.sub("", before))""",
        """_OPEN_THINKING.sub("", before)""",
        "prompts/test_chat.py::test_thinking_stands_once",
    ),
    Bug(
        "prompts/chat",
        "the-template-reads-the-clock",
        'MARK + (_clock_macro() if self.writes_date else "")',
        'MARK + ""',
        "prompts/test_chat.py::test_a_template_is_told_the_same_date_every_day",
    ),
    Bug(
        "prompts/encode",
        "a-chat-begins-with-two-bos",
        "(special or self.chat) and self._begins_twice",
        "special and self._begins_twice",
        "prompts/test_chat.py::test_a_beginning_that_the_template_doubles_is_taken_once",
    ),
    Bug(
        "prompts/padding",
        "padding-on-the-left-is-text",
        'for side in ("begin with", "end in"):',
        'for side in ("end in",):',
        "prompts/test_padding.py::test_tokenizers_themselves",
    ),
    Bug(
        "prompts/padding",
        "a-mask-cuts-one-token-too-many",
        "len(marks) - marks[::-1].index(True)",
        "len(marks) - marks[::-1].index(True) - 1",
        "prompts/test_padding.py::test_what_a_tokenizer_returns_is_taken_by_its_mask",
    ),
    Bug(
        "prompts/padding",
        "one-end-of-a-text-is-padding",
        "if longest == 1:",
        "if longest == 0:",
        "prompts/test_padding.py::test_a_single_end_is_no_padding",
    ),
    Bug(
        "prompts/answers",
        "every-seam-is-fine",
        "if last.isdigit() and first.isdigit():",
        "if last.isalnum() or first.isdigit():",
        "prompts/test_answers.py::test_letters_that_meet_are_one_word",
    ),
    Bug(
        "prompts/tokenize",
        "only-answers-in-chats-are-looked-at",
        "    elif turns.answer is not None and makes_one_word(",
        "    elif encoder.chat and turns.answer is not None and makes_one_word(",
        "prompts/test_answers.py::test_text_and_answer_in_one_word_are_named_whatever_brings_them",
    ),
    Bug(
        "surveying/plan",
        "texts-of-references-are-in-the-manifest",
        "return values | dict.fromkeys(holds_texts, withheld(len(self.references[measure.name])))",
        "return values",
        "surveying/test_withholding.py::test_no_file_and_no_page_holds_a_text",
    ),
    Bug(
        "measures/base",
        "tokens-are-texts-in-results-without-texts",
        "self.tokenizer if self.keeps_text else None",
        "self.tokenizer",
        "surveying/test_withholding.py::test_no_file_and_no_page_holds_a_text",
    ),
    Bug(
        "surveying/asking",
        "labels-hold-texts",
        "if not self.keep_text:",
        "if self.keep_text is None:",
        "surveying/test_withholding.py::test_no_file_and_no_page_holds_a_text",
    ),
)
