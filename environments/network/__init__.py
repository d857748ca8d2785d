"""Network of a target by an allow list of hosts: the list, and its enforcement by a proxy."""
