"""Scripts at the price of a fork: a Python that is ready in the target, and forks for each script.

`server_program` and what it is made of run in the target, see `target_program`. `servers` keeps one for an environment
and a Python, and `asking` is the shell text with which a script's shell asks it for a fork. Whatever fails on the way
happens before the script begins, which then is started as without all of this.
"""
