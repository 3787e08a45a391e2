"""The laboratory: small models whose depth is known, made by recipe (`lab.train`) or by hand (`lab.planted`)."""
