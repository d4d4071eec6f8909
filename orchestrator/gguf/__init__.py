"""GGUF files of Muse Glimmer and its drafters: what is in them, and whether it is right."""
