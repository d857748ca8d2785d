"""Fuzzing of all readers of untrusted bytes: the same checks for hypothesis in CI and for atheris."""
