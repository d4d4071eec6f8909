"""Servers that are there to be used: chosen, started, kept in sight, stopped."""
