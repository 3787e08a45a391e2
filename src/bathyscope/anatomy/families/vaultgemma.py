"""VaultGemma: Gemma 2 without the norms on the outputs."""

from __future__ import annotations

from bathyscope.anatomy.family import Family

FAMILY = Family(
    name="vaultgemma",
    model_types=("vaultgemma",),
    logit_softcap="final_logit_softcapping",
    notes="Norm weights are stored as w of (1 + w).",
)
