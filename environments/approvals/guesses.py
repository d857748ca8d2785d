"""Heuristic for unknown wrappers: commands among their words, as in `foo -x 3 rm -rf /` and `foo --run='rm -rf /'`.

A guess begins at a word, or within a text, with the name of a program in the tables of destruction and exfiltration.
Guesses count for the policy on destructive commands and for `deny` and `ask` alone.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from environments.approvals import destruction, exfiltration
from environments.approvals.command import UNKNOWN, Command, Redirect, Word, after_dashes, word_set
from environments.approvals.languages import REMOVING

_PROGRAMS = (
    destruction.TABLE.programs
    | exfiltration.TABLE.programs
    | destruction.CLIENTS
    | word_set("sh bash dash zsh ksh ash fish xargs busybox python python3 perl ruby node php")
)
"""Names that begin a command."""
_BARE = destruction.TABLE.bare | exfiltration.TABLE.bare
"""Programs destructive without an argument: `reboot`. The name may be a plain word, so only some places count."""
_PLAIN_WORDS = exfiltration.TABLE.bare | word_set("halt reboot poweroff shutdown slay salt salt-ssh parted kexec")
"""Bare programs whose names are plain words or services, also with words behind."""
_PRINTING = word_set(
    """
    echo printf print say espeak figlet toilet banner cowsay logger notify-send wall write zenity kdialog dialog
    whiptail osd_cat mail mailx sendmail telegram-send ntfy slack slackcat ollama sgpt llm claude aider codex grep
    egrep fgrep zgrep rg ag ack jq yq gron dasel xmllint pup tr cut paste comm join column fold fmt nl rev tac wc
    expr seq yes base64 md5sum sha256sum hexdump xxd od strings tput stty tee sponge pbcopy xclip xsel wl-copy clip
    man which whence type whereis apropos whatis info tldr help ps pgrep pidof top htop ls cat file stat head tail
    diff cmp sdiff readlink realpath basename dirname ldd nm objdump readelf size du df tree exa eza lsd cd mkdir
    rmdir touch rm cp mv test [ [[ : true false read set declare typeset local readonly unset complete compgen case
    for select in git gh glab hub curl http https xh xhs gpg openssl . source eval exec command builtin trap
    sed gsed awk gawk mawk nawk
    """
)
"""Programs whose words run no command, or that have a table of their own."""
_INTERPRETERS = word_set(
    """
    sh bash dash zsh ksh ksh93 mksh ash rbash yash python pypy perl ruby node nodejs bun deno php lua luajit micropython
    """
)
"""Programs whose program text `languages` and `wrappers` read. Their script may run the words behind."""
_OPERAND_NAMES = word_set(
    """
    less more most bat vim vi nvim nano emacs code subl open xdg-open find fd fdfind locate mlocate lsof getent id
    groups finger passwd sha1sum sha512sum cksum sum pushd getcap lsattr getfacl setfattr getfattr namei strip
    checksec ctags shellcheck shfmt sort uniq tar zip unzip zipinfo 7z unrar cpio ar gzip gunzip xz bzip2 zstd apt
    apt-get aptitude apt-cache apt-file apt-mark dpkg dpkg-query dpkg-divert rpm dnf yum zypper apk pacman yay paru
    brew port snap flatpak pip pip3 pipx npm pnpm yarn cargo gem go conda mamba choco scoop winget nix nix-env emerge
    opkg svn hg bzr jj p4 fossil restic borg terraform dotnet mvn gradle systemctl journalctl service pydoc
    ansible-doc
    """
)
"""Programs whose operands are files, packages and the like, perhaps with the name of a program."""
_BUILDING = frozenset(["cargo", "go", "dotnet", "mvn", "gradle"])
"""Programs that run a project's own program with the words as arguments."""
_READING = word_set(
    """
    sqlite3 sqlite duckdb psql mysql mariadb sqlcmd isql sqlplus gdb lldb vim vi nvim ex ed red emacs gnuplot octave
    ghci irb iex tclsh wish guile racket clisp sbcl R Rscript julia groovy scala kotlin jshell ocaml elixir erl
    osascript pwsh ftp sftp lftp telnet dc m4 bc ipython troff groff tex latex maxima raku nu xonsh fish expect
    parallel rush jjs go crontab incrontab
    """
)
"""Programs that take commands from standard input."""
_PROSE = word_set(
    """
    -m --message --body --title --description --desc --comment --note --notes --reason --subject --label --annotation
    --header --data --data-raw --json --build-arg --grep --author --format --template --prompt --text --summary
    --help --regex --pattern --filter --exclude --include --ignore --match --query --search --content --changelog
    --tag
    """
)
"""Options whose value is prose and is never run."""
_PROSE_NAMES = re.compile(r"(?i)(?:msg|message|title|text|note|prompt|desc|description|reason|^PS\d)$")
"""Names of options and variables with prose as their value."""
_BEFORE_COMMAND = frozenset(["run", "exec", "x", "dlx", "--", "-x", "-X"])
MAX_GUESSES = 40
"""Limit of guesses for a command."""
_LONGEST = 1000
"""Limit of a guess: characters within a text, words among words. The rest is UNKNOWN."""
_TEXT = re.compile(r"[\s,;'\"|&]")
_NAME = re.compile(r"(?<![\w.$-])(?<![\w.~-]/)((?:[\w.-]*/){0,20})([A-Za-z][\w.+-]*)(?=[\s,;'\"|&)\]}<]|\\ |\\n|$)")
_STRONG = re.compile(r"(?:^|[;|&({\[=:!@'\"`\n]|--)\s*$")
_AFTER_PRINT = re.compile(
    r"(?:^|[\W_])(?:print\w*|puts|put\w*Str\w*|echo|say|log|message|display|cat|write\w*)[\s('\"\[]*$"
)
_TOKEN = re.compile(r"(?:'[^'\n]*'|\"[^\"\n]*\"|\\.|[^\s;|&()<>`'\"\\])+")
_BLANKS = re.compile(r"[ \t]*")
_ESCAPED = re.compile(r"^(?:\./)?~[!|](.*)", re.MULTILINE)
"""A shell escape of `mail`: a line of standard input that is run."""
_WRITES = re.compile(r"(?<![-=<>])>{1,2}\s*((?:/|~)[\w./~-]+)")
_PLACE = re.compile(r"[\"'](/[\w./-]*|~/?)[\"']")
_HIDING = re.compile(r"\\(?=[a-zA-Z])|(?<=\w)(?:''|\"\")(?=\w)|^-[a-zA-Z](?=[a-z/])")
_LIST = re.compile(r"[\s,'\"\[\]]+")


def guesses(command: Command, known: Sequence[Command] = (), texts: Sequence[str] = ()) -> tuple[Command, ...]:
    """Return the commands that may hide in the words, the standard input and the assignments of a command.

    Args:
        command: The command.
        known: The known nested commands, left out of the search.
        texts: The known nested shell texts.
    """
    if not command.name:
        return ()
    found: list[Command] = []
    for name, word in command.assignments:
        if not _PROSE_NAMES.search(name):
            found += islice(_in_text(command, word.text), MAX_GUESSES)
    for text in _texts_read(command):
        found += islice(_in_text(command, text), MAX_GUESSES)
    if command.name not in _PRINTING:
        found += islice(_in_words(command, {word.text for one in known for word in one.words}, texts), MAX_GUESSES)
    return tuple(found)


def _texts_read(command: Command) -> Collection[str]:
    """Return the texts with possible commands on standard input."""
    if command.name in ("mail", "mailx"):
        return _ESCAPED.findall(command.stdin_text or "")
    if command.name not in _READING:
        return ()
    feeding = (*command.producers, *(fed for word in command.args for fed in word.producers))
    return {
        text.replace("file delete", "rm -r")
        for text in (command.stdin_text, *(one.stdout_text for one in feeding))
        if text
    }


def _in_words(command: Command, known: Collection[str], texts: Sequence[str]) -> Iterator[Command]:
    names_only = command.name in _OPERAND_NAMES or command.name in destruction.TABLE.plain
    takes_texts = command.name not in _INTERPRETERS
    before, running = "", False
    for at, word in enumerate(command.words):
        text = word.text
        if len(text) < 2 or text in known:
            pass
        elif _TEXT.search(text):
            is_known = _is_prose(before) or _is_prose(text) or any(text in one or one in text for one in texts)
            if takes_texts and not is_known:
                yield from _in_text(command, text)
        elif at and ("=" in text or (text[0] != "-" and (running or not names_only))):
            guess = _at_word(command, at, before)
            yield from (guess,) if guess else ()
        before = text
        running = running or (text in _BEFORE_COMMAND and command.name not in _BUILDING)


def _is_prose(text: str) -> bool:
    option, _, _ = text.partition("=")
    return option in _PROSE or bool(_PROSE_NAMES.search(option))


def _at_word(command: Command, at: int, before: str) -> Command | None:
    """Return the command at a word or at the value of an option; None without a program's name."""
    text = command.words[at].text.rpartition("=")[2]
    name = text.rpartition("/")[2]
    if not _is_program(name) or UNKNOWN in text:
        return None
    behind: Sequence[Word] = command.words[at + 1 :]
    if not (before == "--" or text.startswith("/") or _may_be_program(name, followed=bool(behind))):
        return None
    behind = after_dashes(behind)
    cut = (Word(UNKNOWN),) if len(behind) > _LONGEST else ()
    return _guess(command, (Word(text), *behind[:_LONGEST], *cut))


def _is_program(name: str) -> bool:
    return name in _PROGRAMS or name.startswith("mkfs.")


def _may_be_program(name: str, *, followed: bool) -> bool:
    """Return False if the name of a program may be a plain word here."""
    return name not in _BARE or (followed and name not in _PLAIN_WORDS)


def _guess(command: Command, words: Sequence[Word]) -> Command:
    return replace(command.nest(words), is_guess=True)


def _in_text(command: Command, text: str) -> Iterator[Command]:
    """Return the commands at names of programs in a text, also those hidden by quoting or an option."""
    text = text.replace("\\ ", " ")
    yield from _in_plain_text(command, text)
    plain = _HIDING.sub("", text)
    if plain != text:
        yield from _in_plain_text(command, plain)


def _in_plain_text(command: Command, text: str) -> Iterator[Command]:
    for found in islice(_NAME.finditer(text), 20 * MAX_GUESSES):
        name, start = found[2], found.start()
        if not _is_program(name) or _AFTER_PRINT.search(text, max(0, start - 40), start):
            continue
        followed = found.end() < len(text)
        if _may_be_program(name, followed=followed) or _STRONG.search(text, max(0, start - 40), start):
            yield from _at_name(command, text, start, found.end())
    if REMOVING.search(text):
        for found in islice(_PLACE.finditer(text), MAX_GUESSES):
            yield _guess(command, (Word("rm"), Word("-rf"), Word(found[1])))
    for found in islice(_WRITES.finditer(text), MAX_GUESSES):
        yield replace(_guess(command, ()), redirects=(Redirect(">", _word(found[1])),))


def _at_name(command: Command, text: str, start: int, end: int) -> Iterator[Command]:
    """Return the command with its name at the given place in a text, and the producer in front of a pipe."""
    words = _split(text[: start + _LONGEST], start, end)
    if len(text) > start + _LONGEST and sum(map(len, words)) + len(words) > _LONGEST // 2:
        words.append("$more")
    guess = _guess(command, [_word(one) for one in words])
    before = text[max(0, start - 500) : start].rstrip()
    if before.endswith("|"):
        source = re.split(r"[;&|\n(]", before[:-1])[-1].strip().strip("'\"")
        fed = _guess(command, [_word(one) for one in source.split()])
        yield fed
        guess = replace(guess, producers=(fed,), stdin_text=None)
    yield guess


def _split(text: str, start: int, end: int) -> list[str]:
    """Return the words of the command with the given start and end of its name."""
    sign = text[end : end + 1]
    quote = text[start - 1 : start]
    if sign and sign in ",;" and text[end + 1 : end + 2].strip() not in ("", "'", '"'):  # rm,-rf,/
        part = re.split(r"[\s'\"]", text[start:], maxsplit=1)[0]
        return [one for one in part.split(sign) if one]
    if sign and sign in "'\"" and quote == sign:  # ["rm", "-rf", "/"]
        return [one for one in _LIST.split(re.split(r"[\n;)}]", text[start:], maxsplit=1)[0]) if one]
    if quote and quote in "'\"`":
        text = text[: max(text.find(quote, end), 0) or len(text)]
    made, at = [], start
    while token := _TOKEN.match(text, at):
        made.append(re.sub(r"\\(.)|['\"]", r"\1", token[0]))
        at = token.end() + len(_BLANKS.match(text, token.end())[0])  # type: ignore[index]
    return made


def _word(text: str) -> Word:
    text = re.sub(r"\$\{?HOME\}?", "~", text)
    plain = re.sub(r"\$\{[^}]*\}|\$\w+|\$\(.*", UNKNOWN, text)
    return Word(plain, glob=any(sign in text for sign in "*?["), quoted=plain == text)
