"""Observation of operations: a record in a file, and OpenTelemetry."""
