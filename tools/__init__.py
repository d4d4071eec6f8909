"""Scripts of the project that users do not need: documentation and the bundled model."""
