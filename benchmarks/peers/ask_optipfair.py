"""optipfair: importance of layers, 1 − cosine of a layer's input and output."""

from __future__ import annotations

import torch
from exchange import Answers
from optipfair.pruning.depth import analyze_layer_importance


def main() -> None:
    answers = Answers("optipfair")
    hf = answers.model()

    def importance() -> list[float]:
        batches = [{"input_ids": torch.tensor([ids])} for ids in answers.prompts]
        scores = analyze_layer_importance(hf, batches, show_progress=False)
        return [scores[layer] for layer in sorted(scores)]

    def of_single_tokens() -> list[float]:
        """Give its formula one token at a time, as published block influence has it."""
        from optipfair.pruning.depth import _calculate_cosine_importance

        scores: dict[int, list[float]] = {layer: [] for layer in range(len(hf.model.layers))}

        def note(layer: int, module: object, inputs: tuple[torch.Tensor, ...], output: object) -> None:
            after = output[0] if isinstance(output, tuple) else output
            assert isinstance(after, torch.Tensor)
            pairs = zip(inputs[0][0], after[0])
            scores[layer] += [_calculate_cosine_importance(one[None], other[None], layer) for one, other in pairs]

        handles = [
            module.register_forward_hook(lambda *call, layer=layer: note(layer, *call))
            for layer, module in enumerate(hf.model.layers)
        ]
        for ids in answers.prompts:
            hf(torch.tensor([ids]), use_cache=False)
        for handle in handles:
            handle.remove()
        return [sum(values) / len(values) for values in scores.values()]

    answers.take("block influence, a prompt as one vector", importance)
    answers.take("block influence", of_single_tokens)
    answers.write()


if __name__ == "__main__":
    main()
