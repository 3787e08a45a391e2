"""captum: integrated gradients of the answer's probability at the output of one block, by token."""

from __future__ import annotations

from typing import Any

import torch
from captum.attr import IntegratedGradients
from exchange import Answers


def main() -> None:
    answers = Answers("captum")
    torch.set_grad_enabled(True)
    hf = answers.model()
    hf.requires_grad_(False)
    ids = torch.tensor([answers.request["sum"]["ids"]])
    begin = len(ids[0]) - answers.request["sum"]["answer_tokens"]
    layer = hf.model.layers[answers.request["gradient_block"]]

    def probability(output: torch.Tensor) -> torch.Tensor:
        """The sum of the answer tokens' probabilities, where a block's output is given, [rows]."""
        tokens = ids.expand(len(output), -1)
        handle = layer.register_forward_hook(lambda module, inputs, usual: _in_place_of(usual, output))
        try:
            logits = hf(tokens, use_cache=False).logits[:, begin - 1 : -1]
        finally:
            handle.remove()
        return logits.softmax(-1).gather(-1, tokens[:, begin:, None])[..., 0].sum(-1)

    def attributions() -> torch.Tensor:
        outputs: list[torch.Tensor] = []
        handle = layer.register_forward_hook(lambda module, inputs, usual: outputs.append(_tensor(usual).detach()))
        hf(ids, use_cache=False)
        handle.remove()
        baseline = outputs[0].mean(1, keepdim=True).expand_as(outputs[0]).contiguous()
        by_channel = IntegratedGradients(probability).attribute(
            outputs[0],
            baselines=baseline,
            n_steps=answers.request["nodes"],
            method="gausslegendre",
            internal_batch_size=4,
        )
        return by_channel[0].sum(-1).detach()

    answers.take("integrated gradients", attributions)
    answers.write()


def _tensor(output: Any) -> torch.Tensor:
    tensor: torch.Tensor = output[0] if isinstance(output, tuple) else output
    return tensor


def _in_place_of(usual: Any, output: torch.Tensor) -> Any:
    return (output, *usual[1:]) if isinstance(usual, tuple) else output


if __name__ == "__main__":
    main()
