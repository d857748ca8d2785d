"""The same stream, made of short commands and files, for services that have nothing better."""
