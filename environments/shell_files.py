"""Moving files through the shell alone, for targets that offer nothing better."""

from __future__ import annotations

PIECE = 24 * 1024
"""Bytes to send at a time. In base64 they fit the frame that a shell reads as one command."""

# $path and $cwd are set in front. A link is followed, so that what it points at is replaced and not the link.
_PREPARE = r"""
case $path in '~') path=$HOME ;; '~/'*) path=$HOME/${path#'~/'} ;; /*) ;; *) path=$cwd/$path ;; esac
"""
