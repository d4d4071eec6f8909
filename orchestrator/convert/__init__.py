"""Checkpoints to GGUF files with a manifest each: `museorch convert`."""
