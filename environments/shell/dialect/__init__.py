"""All shell text of ours: what makes a plain shell run commands for us.

The shell reads its script from the stream, so each request is a few lines of shell on its standard input. The user's
text is always the argument of an `eval`: a syntax error, an unclosed quote or here-document is then that eval's error
and not the shell's end. The redirections of that eval, which the shell takes back behind it,

- give the command an input of its own, so that it never reads our script;
- put its output on the stream, so that `exec >/dev/null` in a command is undone;
- open the leash: one end of a pipe that everything the command starts inherits. It tells whether anything of a command
  is left, and the processes of one command from those of another even if they have cleared their environment.

Between commands the shell's own output goes nowhere, and with it what `set -x` and traps on DEBUG and ERR would say
about our text. Our names begin with a word that differs from shell to shell.

`boot` is what a process in the target begins with; `base`, `bash` and `posix` speak to each kind of shell; `commands`
and `files` are texts for any POSIX shell.
"""
