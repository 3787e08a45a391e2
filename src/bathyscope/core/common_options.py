"""Options that several verbs share, each with its range and its description."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from bathyscope.core.descriptions import Doc
from bathyscope.options import ByName, Coverage, Range, Repeatable, Resamples

_TOGETHER = "that belong together, such as document; they are resampled as one."

Level = Annotated[Coverage, Doc("coverage of the intervals.")]
OF_PROMPTS = Doc("bootstrap resamples of the prompts.")
PromptResamples = Annotated[Resamples, OF_PROMPTS]
TestResamples = Annotated[Resamples, Doc("bootstrap resamples of the test prompts.")]
PromptCluster = Annotated[str | None, Doc(f"label of prompts {_TOGETHER}")]
TestCluster = Annotated[str | None, Doc(f"label of test prompts {_TOGETHER}")]
PromptLabel = Annotated[
    str | None,
    Doc(
        "the prompts' label of what belongs together, such as document; such prompts are resampled as one. None = "
        "each for itself."
    ),
]
ProblemSeed = Annotated[int, Doc("of generated problems.")]
BeyondContext = Annotated[
    bool | None,
    Doc(
        "prompts longer than the context that the model declares: True = run them where positions are not looked up "
        "in a table, False = refuse them; None = run those of data sets, with a warning, and refuse those given one by "
        "one."
    ),
]
AddSpecialTokens = Annotated[
    bool,
    Doc(
        "put the tokenizer's own special tokens (BOS) around texts, and BOS before windows of a text file; False = "
        "take texts as they stand."
    ),
]
ChatForm = bool | Mapping[str, Any]
Chat = Annotated[
    ChatForm,
    ByName(),
    Doc(
        "write texts as the user's turn in the tokenizer's chat template, answers as the assistant's, and chats as all "
        "their turns; without an answer the assistant's turn is begun. Token ids stay as they are. Options of the "
        "template go with it, in a call as a dict and in a shell as --chat.NAME VALUE."
    ),
]
FOLDER_OF_RUN = Doc("folder of the run.")
FOLDER_OF_RUNS = Doc("folder of the runs, one folder each.")
FOLDER_OF_DEMO = Doc("folder of the run and its report.")
RealModelName = Literal["smollm2", "gemma3"]
"""Pretrained models that the demo surveys, and of which a checkout measures what the papers claim."""
DRY_RUN = Doc("list what would be published, and publish nothing.")
ResumeCommand = Annotated[str | None, Doc("the command line to resume by, for messages.")]
OF_A_RUN = Doc("folder of the run; an interrupted run there is resumed.")
KeepText = Annotated[bool, Doc("store the text of every token with the run; token ids are always stored.")]
Preset = Annotated[str | None, Doc("a paper's choices as defaults.")]
Revision = Annotated[str | None, Doc("branch, tag or commit on the hub.")]
TrustRemoteCode = Annotated[bool, Doc("allow code that comes with the checkpoint. Off unless requested.")]
TaskRows = Annotated[
    Sequence[str] | None, Repeatable("NAME=FILE"), Doc("rows of a task from a file instead of the hub.")
]
TaskLimit = Annotated[Annotated[int, Range(1)] | None, Doc("how many first documents of each task; None = all.")]
AllowTaskCode = Annotated[
    bool, Doc("run code that the YAML file of a task names: functions, and scripts of metrics and data.")
]
Progress = Annotated[bool, Doc("show a progress bar on standard error when it takes long.")]


@dataclass(frozen=True)
class ReadingOptions:
    """How prompts are read: options of every verb that takes prompts."""

    beyond_context: BeyondContext = None
    add_special_tokens: AddSpecialTokens = True
    chat: Chat = False
