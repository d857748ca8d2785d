"""Changing parts of files: by a replacement, or by a patch in the V4A format."""
