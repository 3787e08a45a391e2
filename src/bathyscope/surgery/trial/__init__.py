"""A trial: a model, the prompts that choose, the prompts that judge, and a ledger of what every choice costs them."""
