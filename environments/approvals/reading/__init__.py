"""Shell text read as the commands that it would run, without running any."""
