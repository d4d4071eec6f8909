"""Engines on this machine: made here or told of, found, built, looked at."""
