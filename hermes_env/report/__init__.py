"""A page of a record: read tolerantly, joined into events, and written as one file that needs nothing else."""
