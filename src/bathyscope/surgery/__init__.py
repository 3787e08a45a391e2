"""Acting on depth: a schedule on the real model, and choosing, proving and exporting what can go."""
