"""What each arm would start, and what speaks against it, before anything runs."""
