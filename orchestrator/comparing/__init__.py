"""Arms against each other: what matches, ratios with intervals, causes, outputs."""
