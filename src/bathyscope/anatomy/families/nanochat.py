"""nanochat: norms without weights, one of them on the embedding, softcapped logits."""

from __future__ import annotations

from bathyscope.anatomy.family import Family

FAMILY = Family(
    name="nanochat",
    model_types=("nanochat",),
    logit_softcap="final_logit_softcapping",
    notes="h_0 is the normed embedding.",
)
