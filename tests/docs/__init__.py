"""What is known of the documents, for the tests of them."""
