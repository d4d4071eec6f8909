"""Muse Glimmer's full shape on a GPU: all its recipes in one command, and their page in another."""
