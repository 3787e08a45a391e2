"""pytorch-cka: unbiased CKA of the last tokens of some prompts, between all boundaries."""

from __future__ import annotations

import torch
from cka.cka import cka_from_features
from exchange import Answers


def main() -> None:
    answers = Answers("pytorch-cka")
    hf = answers.model()

    def last_states(ids: list[int]) -> torch.Tensor:
        """Return the residual stream at the last token, [boundaries, width]."""
        streams: list[torch.Tensor] = []
        readers = [*hf.model.layers, hf.model.norm]
        handles = [
            reader.register_forward_pre_hook(lambda module, inputs: streams.append(inputs[0])) for reader in readers
        ]
        hf(torch.tensor([ids]), use_cache=False)
        for handle in handles:
            handle.remove()
        return torch.stack([stream[0, -1] for stream in streams])

    def similarity() -> torch.Tensor:
        points = torch.stack([last_states(ids) for ids in answers.prompts], dim=1).double()
        return cka_from_features(points, points)

    answers.take("CKA of last tokens", similarity)
    answers.write()


if __name__ == "__main__":
    main()
