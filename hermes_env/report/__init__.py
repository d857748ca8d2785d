"""The HTML report of a record: reads damaged records too, joins lines into events, and writes a self-contained file."""
