"""Builds the bundled tiny Muse Glimmer and its two drafters; see README.md here."""
