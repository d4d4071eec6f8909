"""result.json out of a run directory."""
