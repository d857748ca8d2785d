"""The network of a target by a list of hosts: the rules, and the proxy that holds a target to them."""
