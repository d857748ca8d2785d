"""Plugs: adapters of our environments to agent frameworks. Each module imports its framework; no other module does.

Each plug has an extra, such as `hermes-environments[inspect_ai]`. docs/agents.md has an example for each.
"""
