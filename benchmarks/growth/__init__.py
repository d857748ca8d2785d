"""What grows with the number of environments, the size of results and the distance: the charts."""
