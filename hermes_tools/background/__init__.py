"""Commands in the background: their output and input, their table, and notices of them."""
