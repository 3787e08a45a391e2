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

    def trajectories() -> list[PredictionTrajectory]:
        return [PredictionTrajectory.from_lens_and_model(lens, hf, ids) for ids in answers.prompts]

    def statistic(name: str) -> torch.Tensor:
        stats = [getattr(trajectory, name)().stats for trajectory in trajectories()]
        return mean_over_tokens([torch.as_tensor(values) for values in stats])

    answers.take("lens entropy", lambda: statistic("entropy"))
    answers.take("lens forward KL", lambda: statistic("forward_kl"))
    answers.write()


if __name__ == "__main__":
    main()
