"""The documents, for tests of them."""
