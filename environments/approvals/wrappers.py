"""Wrappers, such as sudo, xargs and ssh, and their nested commands. A table, and functions for the rest."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from environments.approvals import languages
from environments.approvals.command import (
    INPUT,
    RUNS_DOWNLOAD,
    UNKNOWN,
    UNSEEN,
    Command,
    Nested,
    Options,
    Word,
    after_dashes,
    word_set,
)
from environments.approvals.destruction import find_roots, is_narrowed
from environments.approvals.globs import possible_programs
from environments.approvals.guesses import MAX_GUESSES, guesses

_NONE = Nested()
_TOO_MANY = f"{UNSEEN}: too many of its words name programs"
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[[^\]]*\])?\+?=(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Row:
    """A wrapper of the words behind its options and operands."""

    subcommands: frozenset[str] = frozenset()
    """Subcommands in front of the nested command; empty for a wrapper without subcommands."""
    valued: tuple[str, ...] = ()
    """Options followed by a value."""
    skip: int = 0
    """The number of operands in front of the nested command."""
    chdir: tuple[str, ...] = ()
    """Options whose value is the working directory."""
    flags: frozenset[str] = frozenset()
    """`text`: the words behind are joined to a shell text. `input`: without a nested command, a shell reads standard
    input. `dashes`: options may follow operands, so the nested command begins behind `--`."""


_WRAPPERS = r"""
nohup setsid builtin command nocorrect noglob not { } ! then do else elif if while until coproc ; -n -i -s
sudo ; -u -g -h -p -C -r -t -T -U -R --user --group --host --prompt --role --type --chroot --close-from \
    ; chdir=-D,--chdir input
doas ; -u -C ; input
su sg newgrp ; -s -g -G -w --shell --group ; skip=1 text input
env ; -u --unset -a --argv0 ; chdir=-C,--chdir
nice ; -n --adjustment
exec ; -a
time ; -o -f --output --format
timeout ; -s -k --signal --kill-after ; skip=1
flock ; -w -E --timeout --conflict-exit-code ; skip=1
chroot taskset chrt faketime gosu su-exec setuidgid envdir chpst ; -u -U -e -n -f -T -P -D ; skip=1 input
watch ; -n --interval ; text
screen ; -S -t -c -h -T -p -e -s -L -D -R -x
tmux: new|new-session|neww|new-window|splitw|split-window|respawn-pane|respawnp|respawn-window|respawnw|send-keys|send|\
run-shell|run|pipe-pane|pipep|popup|display-popup ; -t -s -n -c -x -y -e -l -F -N -w -h ; text
docker podman nerdctl docker-compose podman-compose: exec|run ; -e -u -v -p -l -h -m -a -c --env --user --volume \
    --name --network --mount --entrypoint --env-file --publish --label --memory --cpus --platform --pull --hostname \
    --add-host --device --gpus --ipc --pid --restart --shm-size --tmpfs --ulimit --index --cap-add --cap-drop \
    --security-opt ; skip=1 chdir=-w,--workdir
kubectl oc: exec|run|debug|rsh ; -n -c -f --namespace --container --context --kubeconfig --image --env --port \
    --labels --cluster --user --overrides --restart --target ; skip=1 dashes
uv poetry pipenv hatch rye pdm conda mamba micromamba: run ; -p -f -n --with --python --extra --group --env-file \
    --env --package --project --name --prefix --cwd ; dashes
apptainer singularity: exec ; -B -H --bind --home --pwd --overlay --env ; skip=1 dashes
bundle mise pyenv rbenv: exec|x ; -C ; dashes
npm pnpm yarn bun: exec|x|dlx ; -p --package -w --workspace
npx ; -p --package -w --workspace
hermes-env: exec ; --backend --image --cwd --timeout --env --user --task-id ; text
"""
"""Wrappers with subcommands behind a colon; options followed by a value; other fields of `_Row`."""
_SHELL_TEXT_OPTIONS = """
su script sg newgrp flock npm npx pnpm yarn bun: -c --command --session-command --call
scp sftp: -S
rsync: -e --rsh --rsync-path
tar: -I -F --use-compress-program --use-compress-prog --to-command --rsh-command --info-script --checkpoint-action
mapfile readarray complete compgen: -C
split: --filter
sort: --compress-program
rg man: --pre -P --pager -H --html
"""
"""Options whose value is a shell text."""
_UNKNOWN_WRAPPERS = word_set(
    """
    fakeroot unbuffer dbus-run-session eatmydata torsocks catchsegv linux32 linux64 i386 x86_64 tini dumb-init
    busybox toybox bunx pkgx wine firejail bwrap fakechroot valgrind systemd-inhibit systemd-run systemd-nspawn
    mpirun mpiexec srun pkexec runuser ionice stdbuf setarch setpriv prlimit unshare nsenter strace ltrace perf gdb
    caffeinate cpulimit xvfb-run proxychains proxychains4 proot start-stop-daemon daemonize entr rtx asdf direnv
    dotenv op doppler infisical aws-vault chamber vagrant heroku toolbox distrobox lxc incus multipass machinectl nix
    nix-shell ansible salt pdsh clush pssh dsh numactl cgexec softlimit rlwrap tsocks ccache distcc chronic ts tsp
    hyperfine nodemon watchexec concurrently cross-env parallel-ssh sbatch bsub qsub
    """
)
"""Wrappers with unknown options."""


def _rows() -> Iterator[tuple[str, _Row]]:
    for line in _WRAPPERS.replace("\\\n", "").strip().splitlines():
        names, valued, flags = (part.strip() for part in f"{line};;".split(";")[:3])
        programs, _, subcommands = names.partition(":")
        given = dict(flag.split("=") for flag in flags.split() if "=" in flag)
        row = _Row(
            frozenset(subcommands.replace("|", " ").split()),
            tuple(valued.split()),
            int(given.get("skip", 0)),
            tuple(given["chdir"].split(",")) if "chdir" in given else (),
            frozenset(flag for flag in flags.split() if "=" not in flag),
        )
        yield from ((program, row) for program in programs.split())


_ROWS = dict(_rows())
_TEXT_OPTIONS = {
    program: tuple(options.split())
    for programs, _, options in (line.partition(":") for line in _SHELL_TEXT_OPTIONS.strip().splitlines())
    for program in programs.split()
}
_CHDIR = frozenset({"--chdir", "--cwd", "--workdir", "--working-directory", "-C"})
_MAX_STARTS = 4
_SHELLS = word_set("sh bash dash zsh ksh ksh93 mksh ash fish pwsh powershell rbash yash tcsh csh")
COPYING = frozenset({"cp", "ln", "mv", "install"})
_PRINTS_SETTINGS = word_set(
    "ssh-agent direnv conda mamba micromamba pyenv rbenv nodenv goenv fnm starship brew dircolors opam keychain zoxide"
    " register-python-argcomplete minikube docker-machine mise rtx thefuck luarocks kubectl helm gh resize tset"
)
"""Programs with output for `eval`."""
_PROGRAM_VARIABLES = word_set(
    "PROMPT_COMMAND PAGER GIT_PAGER MANPAGER LESSOPEN LESSCLOSE EDITOR VISUAL GIT_EDITOR GIT_SEQUENCE_EDITOR"
    " GIT_SSH GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_ASKPASS SSH_ASKPASS SUDO_ASKPASS BROWSER RSYNC_RSH CVS_RSH"
    " GIT_PROXY_COMMAND GIT_CONFIG_VALUE_0"
)
"""Variables whose value other programs run as shell text."""
_PROMPTS = frozenset({"PS0", "PS1", "PS2", "PS4", "BASH_ENV", "ENV"})
_EVALUATORS = word_set(
    "printf test [ [[ let read declare typeset local export readonly unset getopts mapfile readarray wait"
    " complete compgen"
)
_PROJECT = re.compile(rf"(?:\./|[\w-][\w.-]*/)+{UNKNOWN}[\w.-]*$")
"""A program below the project's directory with a name made at run time. It counts as a script file."""
_EVALUATED = re.compile(r"\[.*(?:\$\(|`)|=\(.*(?:\$\(|`)", re.DOTALL)
"""A subscript or an array with a substitution. These builtins evaluate the substitution despite quotes."""


def second_expansion(text: str) -> str:
    """Return a text with a second expansion, such as a prompt, as a here-document for `:`."""
    return f"<<PROMPT\n{text}\nPROMPT\n"


def join_path(directory: str, path: str) -> str:
    """Resolve a path against a directory; an absolute path, `~` and an unknown path stay."""
    return path if path.startswith(("/", "~", UNKNOWN)) or not directory else posixpath.join(directory, path)


def nested_commands(command: Command) -> Nested:
    """Return the nested commands and shell texts of a command."""
    found = _variables(command) if command.assignments or command.name in _ASSIGNING else _NONE
    if not command.name:
        return found
    first = command.words[0]
    if first.producers and "/" in first.text and first.literal:
        return found + _written_script(first, command)
    if UNKNOWN in command.name and not (first.quoted and _PROJECT.match(join_path(command.directory, first.text))):
        return found + Nested(reasons=(f"{UNSEEN}: the name of its program is made at run time",))
    for name in possible_programs(command, _NAMES):
        if name in _EVALUATORS and (evaluates := _evaluates(command, name)):
            found += Nested(texts=evaluates)
        if texts := _shell_text_options(command, name):
            found += Nested(texts=texts)
        if special := _FUNCTIONS.get(name):
            found += special(command)
        elif texts:
            pass
        elif row := _ROWS.get(name):
            found += _from_row(command, name, row)
        elif name in _UNKNOWN_WRAPPERS:
            found += _from_unknown_options(command)
    if in_program := languages.embedded_commands(command):
        found += in_program
    if not command.is_guess and (may_run := guesses(command, found.commands, found.texts)):
        found += Nested(guesses=may_run, reasons=(_TOO_MANY,) if len(may_run) >= MAX_GUESSES else ())
    return found


def _as_command(command: Command, words: Sequence[Word], directory: str = "") -> Nested:
    """Return words as a nested command."""
    if not words:
        return _NONE
    return Nested((command.nest(words, join_path(command.directory, directory) if directory else None),))


def _shell_text_options(command: Command, name: str) -> tuple[str, ...]:
    """Return the values of options that are shell texts. A long option may be abbreviated."""
    named = _TEXT_OPTIONS.get(name)
    if not named:
        return ()
    values = Options.of(command.args, named).values
    return tuple(
        value.removeprefix("exec=")
        for option, value in values
        if option in named or (len(option) > 5 and any(one.startswith(option) for one in named))
    )


def _from_row(command: Command, name: str, row: _Row) -> Nested:
    words: Sequence[Word] = command.args
    if row.subcommands:
        at = next((at for at, word in enumerate(words) if word.text in row.subcommands), len(words))
        words = words[at + 1 :]
    options = Options.of(words, (*row.valued, *row.chdir), stop_at_operand=True)
    if name == "command" and options.has("vV"):
        return _NONE
    left = _wrapped_words(row, words, options.operands)
    if name == "coproc" and [word.text for word in left[1:2]] == ["{"]:
        left = left[2:]
    if not left:
        return _script_on_stdin(command) if "input" in row.flags else _NONE
    if name == "coproc":  # later commands write its standard input
        command = replace(command, producers=(Command((Word(UNKNOWN),)),))
    if "text" in row.flags or (name in ("sudo", "doas") and options.has("si", "shell", "login")):
        return _shell_text(left, "a shell is given a text")
    return _as_command(command, left, options.value(*row.chdir))


def _wrapped_words(row: _Row, words: Sequence[Word], left: Sequence[Word]) -> Sequence[Word]:
    """Return the nested command among the words left behind a wrapper's options."""
    while left and (left[0].text == "-" or _ASSIGNMENT.fullmatch(left[0].text)):
        left = left[1:]
    if "dashes" in row.flags and any(word.text == "--" for word in words):
        return words[[word.text for word in words].index("--") + 1 :]
    return after_dashes(left[row.skip :])


def _from_unknown_options(command: Command) -> Nested:
    """Return the command behind a wrapper's unknown options, and guesses in case an option takes a value."""
    starts = [at for at, word in enumerate(command.args) if _may_be_program(word)][:_MAX_STARTS]
    if not starts:
        return _NONE
    directory = next((word.text for one, word in pairwise(command.args) if one.text in _CHDIR), "")
    first, *others = (
        # `--` stands between a program that an option names and its arguments.
        _as_command(command, (command.args[at], *after_dashes(command.args[at + 1 :])), directory).commands[0]
        for at in starts
    )
    return Nested((first,), guesses=tuple(replace(one, is_guess=True) for one in others))


def _may_be_program(word: Word) -> bool:
    return word.literal and bool(re.match(r"[A-Za-z./_]", word.text)) and not _ASSIGNMENT.fullmatch(word.text)


# Shells, and texts for them.


def _shell(command: Command) -> Nested:
    words = [replace(word, text="-" + word.text[1:]) if word.text[:1] == "+" else word for word in command.args]
    options = Options.of(words, ("-o", "-O", "--rcfile", "--init-file"), stop_at_operand=True)
    found = _NONE
    for word in words:
        if word.producers and word.text in (options.value("--rcfile"), options.value("--init-file")):
            found += _script_of(word.producers)
    operands = options.operands
    if options.has("c"):
        return found + replace(
            _shell_text(operands[:1], "a shell is given a text"), arguments=tuple(operands[1:]) or (Word("sh"),)
        )
    if not operands or options.has("s") or operands[0].text in INPUT:
        return found + _script_on_stdin(command)
    if operands[0].producers:
        return found + replace(_script_of(operands[0].producers), arguments=tuple(operands))
    return found


def _sourced(command: Command) -> Nested:
    operands = after_dashes(command.args)
    if operands and operands[0].text in INPUT:
        return _script_on_stdin(command)
    if operands and operands[0].producers and not _is_meant_for_eval(operands[0].producers):
        return _script_of(operands[0].producers)
    return _NONE


def _evaluated(command: Command) -> Nested:
    words = after_dashes(command.args)
    feeding = [fed for word in words for fed in word.producers]
    if feeding and _is_meant_for_eval(feeding) and "".join(word.text for word in words).strip() == UNKNOWN:
        return _NONE
    return _shell_text(words, "eval is given a text")


def _is_meant_for_eval(commands: Sequence[Command]) -> bool:
    """Return True for output meant for `eval`, or contents of named files: `eval "$(grep = .env)"`."""
    if all(command.name in _PRINTS_SETTINGS for command in commands):
        return True
    is_read = any(command.stdout_text is None for command in commands)
    return is_read and languages.is_file_output(commands) and all(command.args for command in commands)


def _shell_text(words: Sequence[Word], what: str) -> Nested:
    """Return words as a shell text; a reason to ask if the text is unknown."""
    text = " ".join(word.text for word in words)
    feeding = tuple(fed for word in words for fed in word.producers)
    reason = f"{UNSEEN}: {what} made at run time"
    if UNKNOWN in text and languages.is_download(feeding):
        return Nested(reasons=(RUNS_DOWNLOAD,))
    if text.strip() == UNKNOWN:
        return Nested(reasons=(reason,))
    return Nested(texts=(text,) if text else ())


def _script_on_stdin(command: Command) -> Nested:
    if command.stdin_text is not None:
        return Nested(texts=(command.stdin_text,) if command.stdin_text else ())
    if not command.producers and any(redirect.operator == "<" for redirect in command.redirects):
        return Nested(reasons=(f"{UNSEEN}: a shell reads a file as its input",))
    return _script_of(command.producers)


def _script_of(feeding: Sequence[Command]) -> Nested:
    """Return the output of commands as the shell text of a script."""
    if not feeding:
        return _NONE
    texts = [one.stdout_text for one in feeding]
    if None not in texts:
        return Nested(texts=("".join(text for text in texts if text),))
    made = f"{UNSEEN}: a shell reads text made at run time"
    return Nested(reasons=(RUNS_DOWNLOAD if languages.is_download(feeding) else made,))


def _written_script(word: Word, command: Command) -> Nested:
    """Return the contents of a script file written by the text itself."""
    writer = word.producers[-1]
    if writer.name in COPYING:
        sources = Options.of(writer.args, ("-t", "-m", "-o", "-g", "-S"), stop_at_operand=False).operands
        return _as_command(command, (replace(sources[0], producers=()), *command.args)) if sources else _NONE
    found = _script_of(word.producers)
    return replace(found, arguments=command.words) if found.texts else found


# Wrappers with a syntax of their own.

_EXECUTING = frozenset({"-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"})
_MAX_NAMES = 20
_FD_VALUED = word_set(
    "-e -E -t -d -S -j -c -o --extension --exclude --type --max-depth --min-depth --size --threads --color --owner"
    " --changed-within --changed-before"
)
_XARGS_VALUED = word_set("-I -J -R -S -n -P -d -L -s -a -E --max-args --max-procs --max-lines --delimiter --arg-file")


def stand_in_files(command: Command) -> tuple[str, ...]:
    """Return a stand-in for the listed files of each directory: `DIR/*` for all files, `DIR/found` for some."""
    if command.name == "find":
        roots = tuple(word.text for word in find_roots(command))
        roots = roots if len(roots) <= _MAX_NAMES else (UNKNOWN,)
        return tuple(f"{root.rstrip('/')}/{'found' if is_narrowed(command) else '*'}" for root in roots)
    if command.name in ("fd", "fdfind"):
        return _listed_by_fd(command)
    if command.name == "ls":
        places = tuple(word.text for word in Options.of(command.args).operands)[:_MAX_NAMES] or (".",)
        return tuple(f"{place.rstrip('/')}/*" for place in places)
    if command.name in ("grep", "sort", "head", "tail", "uniq", "tee", "sed", "tr", "cat") and command.producers:
        return command.producers[-1].listed_files
    if command.name == "git":
        return ("./*",) if command.texts == ("ls-files",) else ("./found",)
    return ("./found",) if command.name in ("grep", "rg", "ag") else ()


def _listed_by_fd(command: Command) -> tuple[str, ...]:
    words: list[Word] = []
    running = False
    for word in command.args:
        running = word.text != ";" and (running or word.text in _EXECUTING)
        if not running and word.text != ";":
            words.append(word)
    options = Options.of(words, _FD_VALUED)
    pattern, *roots = (word.text for word in options.operands) if options.operands else ("",)
    narrowed = pattern not in ("", ".") or options.has("eSE", "extension", "size", "changed-within", "changed-before")
    return tuple(f"{root.rstrip('/')}/{'found' if narrowed else '*'}" for root in (roots or ["."])[:_MAX_NAMES])


def _find_exec(command: Command) -> Nested:
    """Return the commands of `find ... -exec rm {} +`, with stand-ins for the found files."""
    found = _NONE
    run: list[Word] | None = None
    names = command.listed_files or ("./found",)
    executing = _EXECUTING if command.name.startswith("fd") else _EXECUTING - {"-x", "-X"}
    for word in (*command.args, Word(";")):
        if run is None:
            run = [] if word.text in executing else None
        elif word.text not in (";", "+"):
            run.append(word)
        else:
            words = run if any("{" in one.text for one in run) or command.name == "find" else [*run, Word("{}")]
            found += _on_each(command, words, "{}", names)
            run = None
    return found


def _on_each(command: Command, words: Sequence[Word], mark: str, names: Sequence[str]) -> Nested:
    """Return a command for each name, with the mark replaced by the name."""
    found = _NONE
    for name in names:
        found += _as_command(
            command,
            [
                replace(word, text=word.text.replace(mark, name), glob=word.glob or "*" in name)
                if mark in word.text
                else word
                for word in words
            ],
        )
    return found


def _xargs(command: Command) -> Nested:
    """Return the commands of `xargs`, with standard input as arguments."""
    options = Options.of(command.args, _XARGS_VALUED, stop_at_operand=True)
    words = options.operands or (Word("echo"),)
    given = next((text[2:] or "{}" for text in command.texts if text.startswith("-i")), "")
    mark = options.value("-I", "--replace", "-J") or given or ("{}" if options.has("I", "replace") else "")
    read = _arguments_read(command, by_line=bool(mark) or options.value("-d", "--delimiter") == "\\n")
    if mark:
        return _on_each(command, words, mark, read if len(read) <= _MAX_NAMES else (UNKNOWN,))
    more = tuple(Word(text, glob="*" in text, producers=command.producers) for text in read)
    return _as_command(replace(command, producers=(), stdin_text=None), (*words, *more))


def _arguments_read(command: Command, *, by_line: bool = False) -> tuple[str, ...]:
    if command.stdin_text is not None and by_line:
        return tuple(command.stdin_text.splitlines())
    if command.stdin_text is not None:
        return tuple(re.split(r"[\s\0]+", command.stdin_text.strip()))
    return (command.producers[-1].listed_files if command.producers else ()) or (UNKNOWN,)


def _parallel(command: Command) -> Nested:
    """Return the commands of `parallel rm ::: a b`."""
    texts = command.texts
    cut = next((at for at, text in enumerate(texts) if text.startswith(":::")), len(texts))
    words = Options.of(
        command.args[:cut], ("-j", "-S", "-N", "-n", "-a", "--jobs", "--sshlogin"), stop_at_operand=True
    ).operands
    from_file = texts[cut : cut + 1] == ("::::",)
    given = (
        (Word(UNKNOWN),)
        if from_file
        else command.args[cut + 1 :] or tuple(Word(text, glob="*" in text) for text in _arguments_read(command))
    )
    text = " ".join(word.text for word in words)
    names = [word.text for word in given][:_MAX_NAMES]
    if not words:
        lines = tuple(command.stdin_text.splitlines()) if command.stdin_text is not None else tuple(names)
        return Nested(texts=lines[:_MAX_NAMES]) + _script_of(
            () if command.stdin_text is not None else command.producers
        )
    return Nested(texts=tuple(text.replace("{}", name) if "{}" in text else f"{text} {name}" for name in names))


def _env(command: Command) -> Nested:
    first = next((at for at, text in enumerate(command.texts) if re.match(r"-\w*S|--s", text)), None)
    if first is not None:  # `-S text`, `-Stext`, `--split-string=text`
        text = " ".join(command.texts[first:]).replace("\\_", " ")
        words = re.sub(r"^(-\w*S|--s[a-z-]*=?)\s*", "", text)
        return Nested(texts=(f"env {words}" if words else "",))
    functions = tuple(f"f {text.partition('=')[2]}" for text in command.texts if text.startswith("BASH_FUNC_"))
    return _from_row(command, "env", _ROWS["env"]) + Nested(texts=functions)


_SSH_VALUED = word_set("-b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w")
_SSH_COMMAND = re.compile(r"(?i)\s*(?:ProxyCommand|LocalCommand|KnownHostsCommand|RemoteCommand)[\s=]+(.*)", re.DOTALL)


def _ssh(command: Command) -> Nested:
    options = Options.of(command.args, _SSH_VALUED, stop_at_operand=True)
    after = Options.of(options.operands[1:], _SSH_VALUED, stop_at_operand=True)  # options may stand behind the host
    found = _NONE
    for option, value in (*options.values, *after.values):
        if option == "-o" and (match := _SSH_COMMAND.match(value)):
            found += Nested(texts=(match[1],))
    if command.name != "ssh":
        return found
    words = after.operands
    return found + (_shell_text(words, "a shell is given a text") if words else _script_on_stdin(command))


_GIT_COMMANDS = re.compile(
    r"""(?xi) core\.(?:pager|editor|sshcommand|fsmonitor|askpass|gitproxy) | diff\.external | sequence\.editor
    | credential\..*helper | pager\..* | .*\.textconv | filter\..*\.(?:clean|smudge|process) | gpg\..*program
    | merge\..*\.driver | (?:diff|merge)tool\..*\.(?:cmd|path) | interactive\.difffilter
    | remote\..*\.(?:uploadpack|receivepack) | uploadpack\.packobjectshook | trailer\..*\.c(?:om)?m(?:an)?d
    | browser\..*\.cmd"""
)
_GIT_TEXTS = word_set(
    """
    -x --exec --extcmd --upload-pack --receive-pack --tree-filter --index-filter --env-filter --msg-filter --setup
    --commit-filter --parent-filter --tag-name-filter --sendmail-cmd --open-files-in-pager -O
    """
)
_GIT_RUNNING = word_set(
    """
    rebase difftool filter-branch fetch pull push clone archive ls-remote grep send-email fetch-pack send-pack
    """
)


def _git(command: Command) -> Nested:
    options = Options.of(
        command.args, ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env"), stop_at_operand=True
    )
    found = Nested(
        reasons=(f"{UNSEEN}: git takes its programs from another directory",) if options.value("--exec-path") else ()
    )
    for option, value in options.values:
        if option == "-c":
            key, _, text = value.partition("=")
            found += _configured(key, text)
        elif option == "--config-env" and _configured(value.partition("=")[0], "x").texts:
            found += Nested(reasons=(f"{UNSEEN}: git takes a program from a variable",))
    words = options.operands
    if not words:
        return found
    subcommand, texts = words[0].text, [word.text for word in words[1:]]
    own = Options.of(words[1:], _GIT_TEXTS)
    if subcommand in _GIT_RUNNING:
        found += Nested(texts=tuple(value for option, value in own.values if option in _GIT_TEXTS and value))
    if subcommand == "clone":
        config = Options.of(words[1:], ("-c", "--config", "-u", "-b", "-o"))
        for option, value in config.values:
            found += Nested(texts=(value,)) if option == "-u" else _configured(*(value.partition("=")[::2]))
    if subcommand == "config":
        plain = [text for text in texts if not text.startswith("-") and text != "set"]
        found += _configured(plain[0], plain[1]) if len(plain) > 1 else _NONE
    elif subcommand == "submodule" and "foreach" in texts:
        found += _shell_text(
            [word for word in words[texts.index("foreach") + 2 :] if word.text != "--recursive"],
            "a shell is given a text",
        )
    elif subcommand == "bisect" and texts[:1] == ["run"]:
        found += _as_command(command, words[2:])
    return found + Nested(texts=tuple(text.partition("ext::")[2] for text in texts if text.startswith("ext::")))


def _configured(key: str, value: str) -> Nested:
    """Return the command in a setting of git."""
    if key.lower().startswith("alias."):
        return Nested(texts=(value[1:] if value.startswith("!") else f"git {value}",))
    if _GIT_COMMANDS.fullmatch(key):
        return Nested(texts=(value.removeprefix("!"),))
    return _NONE


_MAKE_VALUED = word_set("-f -C -I -j -l -o -W --file --makefile --eval --directory")
_MAKE_SHELL = re.compile(r"\$[({]shell\s+(.*?)[)}]", re.DOTALL)


def _make(command: Command) -> Nested:
    options = Options.of(command.args, _MAKE_VALUED)
    texts = [found[1] for text in command.texts for found in _MAKE_SHELL.finditer(text)]
    texts += [text.partition(";")[2] for text in (options.value("--eval"),) if ";" in text]
    texts += [text.removeprefix("SHELL=") for text in command.texts if text.startswith("SHELL=")]
    if options.value("-f", "--file", "--makefile") in (*INPUT, "/dev/fd/63"):
        return Nested(texts=tuple(texts), reasons=(f"{UNSEEN}: make reads rules made at run time",))
    return Nested(texts=tuple(texts))


def _trap(command: Command) -> Nested:
    words = after_dashes(command.args)
    if len(words) < 2 or words[0].text in ("-", "-l", "-p"):
        return _NONE
    if words[0].text == UNKNOWN:
        return Nested(reasons=(f"{UNSEEN}: trap is given a text made at run time",))
    return _shell_text(words[:1], "trap is given a text")


def _from_history(command: Command) -> Nested:
    lists = command.texts[:1] in ((), ("-l",)) or (command.name == "history" and "-s" not in command.texts)
    return Nested(reasons=() if lists else (f"{UNSEEN}: it runs a command of the history",))


_FUNCTIONS: Mapping[str, Callable[[Command], Nested]] = {
    **dict.fromkeys(_SHELLS, _shell),
    ".": _sourced,
    "source": _sourced,
    "eval": _evaluated,
    "trap": _trap,
    "at": _script_on_stdin,
    "batch": _script_on_stdin,
    "git": _git,
    **dict.fromkeys(("make", "gmake", "ninja"), _make),
    **dict.fromkeys(("ssh", "scp", "sftp"), _ssh),
    "env": _env,
    "find": _find_exec,
    "fd": _find_exec,
    "fdfind": _find_exec,
    "xargs": _xargs,
    "parallel": _parallel,
    "fc": _from_history,
    "history": _from_history,
}
_ASSIGNING = frozenset({"export", "declare", "typeset", "readonly", "local", "env", "sudo"})
_NAMES = frozenset({*_FUNCTIONS, *_UNKNOWN_WRAPPERS, *_ROWS, *_TEXT_OPTIONS})


def _variables(command: Command) -> Nested:
    """Return the commands in variables that other programs run."""
    found = _NONE
    for name, word in (*command.assignments, *_named_values(command)):
        if name in _PROMPTS and word.text in INPUT:
            found += _script_on_stdin(command)
        elif name in _PROMPTS:
            found += Nested(texts=(": " + second_expansion(word.text),)) + _script_of(word.producers)
        elif name in _PROGRAM_VARIABLES and word.literal:
            found += Nested(texts=(word.text.lstrip("|!"),))
        elif name in ("LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES") and word.text:
            found += Nested(reasons=(f"{UNSEEN}: {name} loads a library into each program",))
        elif name in ("TAR_OPTIONS", "MAKEFLAGS") and word.literal:
            found += Nested(texts=(f"{'tar' if name[0] == 'T' else 'make'} {word.text}",))
    return found


def _named_values(command: Command) -> Iterator[tuple[str, Word]]:
    if command.name in _ASSIGNING:
        for word in command.args:
            if match := _ASSIGNMENT.fullmatch(word.text):
                yield match[1], replace(word, text=match[2])


def _evaluates(command: Command, name: str) -> tuple[str, ...]:
    """Return the substitutions in a builtin's arguments, which are evaluated once more."""
    texts = command.texts
    if name in ("let", "complete", "compgen"):
        found = [text for text in texts if "$(" in text or "`" in text]
    else:
        found = [text for text in texts if _EVALUATED.search(text)]
    return tuple(": " + second_expansion(text) for text in found)


def is_wrapper(name: str) -> bool:
    """Return True if a program of this name is a wrapper: one that runs its words or standard input."""
    return name in _NAMES
