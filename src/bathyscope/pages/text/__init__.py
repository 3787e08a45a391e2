"""Text that pages, figures and the terminal share: tables of depth, provenance, commands, templates."""
