"""Commands in the background: their output and input, what is known of them, and who is told of them."""
