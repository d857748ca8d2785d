"""What grows with the number of environments, the size of results, the calls at once and the distance: the charts."""
