"""tuned-lens: its logit lens, as entropies and divergences along a trajectory of predictions."""

from __future__ import annotations

import torch
from exchange import Answers, mean_over_tokens
from tuned_lens.nn.lenses import LogitLens
from tuned_lens.plotting import PredictionTrajectory


def main() -> None:
    answers = Answers("tuned-lens")
    hf = answers.model()
    lens = LogitLens.from_model(hf)

    def stats(name: str, ids: list[int]) -> torch.Tensor:
        """Return a statistic of one prompt, [boundaries, tokens]; its trajectory holds all predictions in memory."""
        trajectory = PredictionTrajectory.from_lens_and_model(lens, hf, ids)
        return torch.as_tensor(getattr(trajectory, name)().stats)

    def statistic(name: str) -> torch.Tensor:
        return mean_over_tokens([stats(name, ids) for ids in answers.prompts])

    answers.take("lens entropy", lambda: statistic("entropy"))
    answers.take("lens forward KL", lambda: statistic("forward_kl"))
    answers.write()


if __name__ == "__main__":
    main()
