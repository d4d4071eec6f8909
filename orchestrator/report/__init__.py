"""Renderings of result.json. Each takes the parsed result and returns text."""
