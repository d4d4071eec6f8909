"""JSON schemas of what museorch writes."""
