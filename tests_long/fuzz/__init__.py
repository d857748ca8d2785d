"""What reads bytes that others wrote, given any bytes: the same checks for hypothesis in CI and for atheris."""
