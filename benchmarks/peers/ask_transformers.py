"""transformers: tokens for each full pass when ``generate`` drafts with its first blocks (``assistant_early_exit``)."""

from __future__ import annotations

from typing import Any

import torch
from exchange import Answers


def main() -> None:
    answers = Answers("transformers")
    hf = answers.model()
    settings = hf.generation_config
    settings.num_assistant_tokens = answers.request["draft"]
    settings.num_assistant_tokens_schedule = "constant"
    settings.assistant_confidence_threshold = 0.0
    new_tokens = answers.request["new_tokens"]
    passes: list[Any] = []
    # drafts run fewer blocks, so that the last block runs once for each full pass
    hf.model.layers[-1].register_forward_hook(lambda *_: passes.append(None))

    def tokens_per_pass(exit_: int) -> float:
        passes.clear()
        tokens = 0
        for ids in answers.prompts:
            prompt = torch.tensor([ids])
            continued = hf.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                do_sample=False,
                max_new_tokens=new_tokens,
                assistant_early_exit=exit_,
            )
            tokens += continued.shape[1] - prompt.shape[1]
        return tokens / len(passes)

    answers.take("tokens for each pass", lambda: [tokens_per_pass(exit_) for exit_ in answers.request["exits"]])
    answers.write()


if __name__ == "__main__":
    main()
