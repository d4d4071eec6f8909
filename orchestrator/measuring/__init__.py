"""From samples, counters and the machine to measurements with units or reasons."""
