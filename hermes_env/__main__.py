"""`python -m hermes_env` is `hermes-env`."""

from hermes_env.cli import main

if __name__ == "__main__":
    main()
