"""One module per architecture family, each holding one ``FAMILY``."""
