"""optipfair: importance of layers, 1 − cosine of a layer's input and output."""

from __future__ import annotations

import torch
from exchange import Answers
from optipfair.pruning.depth import analyze_layer_importance


def main() -> None:
    answers = Answers("optipfair")
    hf = answers.model()

    def importance(prompts: list[list[int]]) -> torch.Tensor:
        batches = [{"input_ids": torch.tensor([ids])} for ids in prompts]
        scores = analyze_layer_importance(hf, batches, show_progress=False)
        return torch.tensor([scores[layer] for layer in sorted(scores)], dtype=torch.float64)

    def by_tokens() -> torch.Tensor:
        """Ask for one prompt at a time, and let each of its tokens count."""
        weights = torch.tensor([len(ids) for ids in answers.prompts], dtype=torch.float64)
        return weights @ torch.stack([importance([ids]) for ids in answers.prompts]) / weights.sum()

    # its own mean lets every prompt count the same, whatever its length
    answers.take("block influence, prompts alike", lambda: importance(answers.prompts))
    answers.take("block influence", by_tokens)
    answers.write()


if __name__ == "__main__":
    main()
