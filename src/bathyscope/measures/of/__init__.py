"""The measures, one file each: what it says of itself, and its code. Importing them imports no torch."""
