"""Each framework's own tests against our plug for it: `make test-plugs`, or `python -m plugs [FRAMEWORK...]`."""
