"""Our environments as other frameworks want them: a module for each, which needs that framework and nothing else does.

Install one as an extra, such as `hermes-environments[inspect_ai]`. docs/agents.md has an example for each,
and the results of the frameworks' own tests.
"""
