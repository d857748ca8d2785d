"""Each framework's own tests on our plug: `make test-plugs`, or `python -m plugs [FRAMEWORK...]`."""
