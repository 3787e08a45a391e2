"""nnsight: how skipping one block changes the contributions of later ones, all tokens but the first skipped."""

from __future__ import annotations

import torch
from exchange import Answers
from nnsight import NNsight


def main() -> None:
    answers = Answers("nnsight")
    model = NNsight(answers.model())
    layers = model.model.layers
    blocks = len(layers)

    def contributions(ids: list[int], skipped: int | None) -> torch.Tensor:
        """Return what every block adds to the residual stream, [blocks, tokens, width]."""
        added = []
        with model.trace(torch.tensor([ids]), use_cache=False):
            for block in range(blocks):
                before = layers[block].input
                if block == skipped:
                    layers[block].output[:, 1:] = before[:, 1:]
                added.append((layers[block].output - before)[0].save())
        return torch.stack(added)

    def effects(ids: list[int]) -> torch.Tensor:
        """Return the largest relative change over tokens, [skipped, block], missing up to the skipped one."""
        normal = contributions(ids, None)
        size = normal.norm(dim=-1).clamp_min(1e-6)
        rows = [((normal - contributions(ids, block)).norm(dim=-1) / size).amax(-1) for block in range(blocks)]
        return torch.stack(rows)[tuple(torch.triu_indices(blocks, blocks, 1))]

    answers.take("skip effects", lambda: torch.stack([effects(ids) for ids in answers.request["few"]]))
    answers.write()


if __name__ == "__main__":
    main()
