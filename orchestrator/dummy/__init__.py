"""Dummy weights: random values in the shape of a model, made here, to time it."""
