"""Duplex streams made of short commands and files, for services without streams."""
