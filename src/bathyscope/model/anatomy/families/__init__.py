"""Tables of families by layout: each module holds ``FAMILIES``, plain data."""
