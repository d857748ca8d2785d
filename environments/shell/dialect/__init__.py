"""All shell text of this package: turns a plain shell into a command server.

The shell reads its script from the stream, so each request is a few lines of shell on its standard input. The user's
text is always the argument of an `eval`: a syntax error, an unclosed quote or here-document then ends the eval and not
the shell. The shell undoes the redirections of this eval afterwards. They

- give the command its own input, so that a command never reads the script;
- send its output to the stream, so that `exec >/dev/null` in a command is undone;
- open the keepalive pipe: all processes started by the command inherit one end of this pipe. It shows whether a process
  of the command is left, and separates processes of different commands even with a cleared environment.

Between commands the shell's own output is discarded, and so is the output of `set -x` and of traps on DEBUG and ERR
about internal text. Internal names begin with a word that differs from shell to shell.

`boot` starts a process in the target as a shell; `base`, `bash` and `posix` have the texts for each kind of shell;
`commands`, `files`, `writing` and `trees` have texts for any POSIX shell.
"""
