"""short-transformers: angular distances between boundaries at the last token."""

from __future__ import annotations

from typing import Any

import torch
from exchange import Answers
from short_transformers import ShortTransformer
from short_transformers.dist import angular_distance_last_token


def main() -> None:
    answers = Answers("short-transformers")
    window = answers.request["window"]

    def by_its_model() -> Any:
        short = ShortTransformer.from_model(answers.model())
        short.set_metric(angular_distance_last_token)
        for ids in answers.prompts:
            short(torch.tensor([ids]), use_cache=False)
        # its rows are numbered by blocks less one
        return short.memory.result[window - 1, : short.layer_count - window + 1]

    def by_its_distance() -> list[float]:
        """Give its distance the streams that plain transformers has."""
        hf = answers.model()
        distances = []
        for ids in answers.prompts:
            streams: list[torch.Tensor] = []
            readers = [*hf.model.layers, hf.model.norm]
            handles = [
                reader.register_forward_pre_hook(lambda module, inputs, to=streams: to.append(inputs[0]))
                for reader in readers
            ]
            hf(torch.tensor([ids]), use_cache=False)
            for handle in handles:
                handle.remove()
            distances.append([angular_distance_last_token(*pair) for pair in zip(streams, streams[window:])])
        return torch.tensor(distances, dtype=torch.float64).mean(0).tolist()

    answers.take("angular distance, by its model", by_its_model)
    answers.take("angular distance", by_its_distance)
    answers.write()


if __name__ == "__main__":
    main()
