"""Reading and writing text files of the target, and how paths there are named."""
