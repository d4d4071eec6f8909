"""What others published, and what of it a run can be held against."""
