"""Programs that run others: one table of them, and the few that need a function of their own."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from environments.approvals import languages, paths
from environments.approvals.command import INPUT, RUNS_DOWNLOAD, UNKNOWN, UNSEEN, Command, Runs, Word
from environments.approvals.deeds import narrows, roots_of
from environments.approvals.globs import names_of
from environments.approvals.guesses import MOST, guesses
from environments.approvals.options import Options, behind_dashes

_NOTHING = Runs()
_TOO_MANY = f"{UNSEEN}: too many of its words name programs"
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[[^\]]*\])?\+?=(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Row:
    """A program that runs the words behind its options and operands."""

    subcommands: frozenset[str] = frozenset()
    """Words behind which the command stands, if it needs one of them."""
    valued: tuple[str, ...] = ()
    """Its options that are followed by a value."""
    skip: int = 0
    """The number of operands before the command."""
    chdir: tuple[str, ...] = ()
    """Options whose value is the directory where it runs."""
    facts: frozenset[str] = frozenset()
    """`text`: the words behind are joined to a shell text. `input`: without a command it runs a shell, which reads its
    input. `dashes`: options may stand behind its operands, so that the command begins behind `--`."""


_TABLE = r"""
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
"""Programs, with subcommands behind a colon, their options that are followed by a value, and fields of `_Row`."""
_TEXTS = """
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
_BEHIND = paths.words(
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
"""Programs that run the words behind some of theirs, of whose options nothing is known."""


def _rows() -> Iterator[tuple[str, _Row]]:
    for line in _TABLE.replace("\\\n", "").strip().splitlines():
        names, valued, facts = (part.strip() for part in f"{line};;".split(";")[:3])
        programs, _, subcommands = names.partition(":")
        given = dict(fact.split("=") for fact in facts.split() if "=" in fact)
        row = _Row(
            frozenset(subcommands.replace("|", " ").split()),
            tuple(valued.split()),
            int(given.get("skip", 0)),
            tuple(given["chdir"].split(",")) if "chdir" in given else (),
            frozenset(fact for fact in facts.split() if "=" not in fact),
        )
        yield from ((program, row) for program in programs.split())


_ROWS = dict(_rows())
_TEXT_OPTIONS = {
    program: tuple(options.split())
    for programs, _, options in (line.partition(":") for line in _TEXTS.strip().splitlines())
    for program in programs.split()
}
_CHDIR = frozenset({"--chdir", "--cwd", "--workdir", "--working-directory", "-C"})
_MOST_STARTS = 4
_SHELLS = paths.words("sh bash dash zsh ksh ksh93 mksh ash fish pwsh powershell rbash yash tcsh csh")
COPYING = frozenset({"cp", "ln", "mv", "install"})
_PRINTS_SETTINGS = paths.words(
    "ssh-agent direnv conda mamba micromamba pyenv rbenv nodenv goenv fnm starship brew dircolors opam keychain zoxide"
    " register-python-argcomplete minikube docker-machine mise rtx thefuck luarocks kubectl helm gh resize tset"
)
"""Programs whose output is made to be evaluated."""
_PROGRAM_VARIABLES = paths.words(
    "PROMPT_COMMAND PAGER GIT_PAGER MANPAGER LESSOPEN LESSCLOSE EDITOR VISUAL GIT_EDITOR GIT_SEQUENCE_EDITOR"
    " GIT_SSH GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_ASKPASS SSH_ASKPASS SUDO_ASKPASS BROWSER RSYNC_RSH CVS_RSH"
    " GIT_PROXY_COMMAND GIT_CONFIG_VALUE_0"
)
"""Variables whose value other programs run as shell text."""
_PROMPTS = frozenset({"PS0", "PS1", "PS2", "PS4", "BASH_ENV", "ENV"})
_EVALUATORS = paths.words(
    "printf test [ [[ let read declare typeset local export readonly unset getopts mapfile readarray wait"
    " complete compgen"
)
_PROJECT = re.compile(rf"(?:\./|[\w-][\w.-]*/)+{UNKNOWN}[\w.-]*$")
"""A program in a directory of the project, whose name is made while it runs; as a script that a shell is given."""
_EVALUATED = re.compile(r"\[.*(?:\$\(|`)|=\(.*(?:\$\(|`)", re.DOTALL)
"""A subscript or an array with a substitution, which these builtins evaluate though it was quoted."""


def evaluated(text: str) -> str:
    """Return a text that the shell expands once more, such as a prompt, as the rest of a command behind `:`."""
    return f"<<PROMPT\n{text}\nPROMPT\n"


def joined(directory: str, path: str) -> str:
    """Return a path as seen from where a text begins; `~` and an unknown path begin anew."""
    return path if path.startswith(("/", "~", UNKNOWN)) or not directory else posixpath.join(directory, path)


def runs(command: Command) -> Runs:
    """Return what a command runs in its turn."""
    found = _variables(command) if command.assignments or command.name in _ASSIGNING else _NOTHING
    if not command.name:
        return found
    first = command.words[0]
    if first.fed_by and "/" in first.text and first.literal:
        return found + _file(first, command)
    if UNKNOWN in command.name and not (first.quoted and _PROJECT.match(joined(command.directory, first.text))):
        return found + Runs(reasons=(f"{UNSEEN}: what names its program is made while it runs",))
    for name in names_of(command, _NAMES):
        if name in _EVALUATORS and (evaluates := _evaluates(command, name)):
            found += Runs(texts=evaluates)
        if texts := _texts_given(command, name):
            found += Runs(texts=texts)
        if special := _SPECIAL.get(name):
            found += special(command)
        elif texts:
            pass
        elif row := _ROWS.get(name):
            found += _by_row(command, name, row)
        elif name in _BEHIND:
            found += _behind(command)
    if in_program := languages.runs(command):
        found += in_program
    if not command.guessed and (may_run := guesses(command, found.commands, found.texts)):
        found += Runs(guesses=may_run, reasons=(_TOO_MANY,) if len(may_run) >= MOST else ())
    return found


def _inner(command: Command, words: Sequence[Word], directory: str = "") -> Runs:
    """Return other words as a command that reads what a command would read."""
    if not words:
        return _NOTHING
    return Runs((command.running(words, joined(command.directory, directory) if directory else None),))


def _texts_given(command: Command, name: str) -> tuple[str, ...]:
    """Return the values of options that are shell texts; a beginning of a long option stands for it."""
    named = _TEXT_OPTIONS.get(name)
    if not named:
        return ()
    values = Options.of(command.args, named).values
    return tuple(
        value.removeprefix("exec=")
        for option, value in values
        if option in named or (len(option) > 5 and any(one.startswith(option) for one in named))
    )


def _by_row(command: Command, name: str, row: _Row) -> Runs:
    words: Sequence[Word] = command.args
    if row.subcommands:
        at = next((at for at, word in enumerate(words) if word.text in row.subcommands), len(words))
        words = words[at + 1 :]
    options = Options.of(words, (*row.valued, *row.chdir), first_ends=True)
    if name == "command" and options.has("vV"):
        return _NOTHING
    left = _command_of(row, words, options.operands)
    if name == "coproc" and [word.text for word in left[1:2]] == ["{"]:
        left = left[2:]
    if not left:
        return _input(command) if "input" in row.facts else _NOTHING
    if name == "coproc":  # which reads what later commands write
        command = replace(command, fed_by=(Command((Word(UNKNOWN),)),))
    if "text" in row.facts or (name in ("sudo", "doas") and options.has("si", "shell", "login")):
        return _script(left, "a shell is given a text")
    return _inner(command, left, options.value(*row.chdir))


def _command_of(row: _Row, words: Sequence[Word], left: Sequence[Word]) -> Sequence[Word]:
    """Return the command in the arguments of a program, of which some are left behind its options."""
    while left and (left[0].text == "-" or _ASSIGNMENT.fullmatch(left[0].text)):
        left = left[1:]
    if "dashes" in row.facts and any(word.text == "--" for word in words):
        return words[[word.text for word in words].index("--") + 1 :]
    return behind_dashes(left[row.skip :])


def _behind(command: Command) -> Runs:
    """Return the command behind the options of a program, and those that it may be if an option has a value."""
    starts = [at for at, word in enumerate(command.args) if _may_be_program(word)][:_MOST_STARTS]
    if not starts:
        return _NOTHING
    directory = next((word.text for one, word in pairwise(command.args) if one.text in _CHDIR), "")
    first, *others = (
        # `--` stands between a program that an option names and its arguments.
        _inner(command, (command.args[at], *behind_dashes(command.args[at + 1 :])), directory).commands[0]
        for at in starts
    )
    return Runs((first,), guesses=tuple(replace(one, guessed=True) for one in others))


def _may_be_program(word: Word) -> bool:
    return word.literal and bool(re.match(r"[A-Za-z./_]", word.text)) and not _ASSIGNMENT.fullmatch(word.text)


# Shells, and texts for them.


def _shell(command: Command) -> Runs:
    words = [replace(word, text="-" + word.text[1:]) if word.text[:1] == "+" else word for word in command.args]
    options = Options.of(words, ("-o", "-O", "--rcfile", "--init-file"), first_ends=True)
    found = _NOTHING
    for word in words:
        if word.fed_by and word.text in (options.value("--rcfile"), options.value("--init-file")):
            found += _output(word.fed_by)
    operands = options.operands
    if options.has("c"):
        return found + replace(
            _script(operands[:1], "a shell is given a text"), arguments=tuple(operands[1:]) or (Word("sh"),)
        )
    if not operands or options.has("s") or operands[0].text in INPUT:
        return found + _input(command)
    if operands[0].fed_by:
        return found + replace(_output(operands[0].fed_by), arguments=tuple(operands))
    return found


def _sourced(command: Command) -> Runs:
    operands = behind_dashes(command.args)
    if operands and operands[0].text in INPUT:
        return _input(command)
    if operands and operands[0].fed_by and not _is_evaluated_often(operands[0].fed_by):
        return _output(operands[0].fed_by)
    return _NOTHING


def _evaluated(command: Command) -> Runs:
    words = behind_dashes(command.args)
    feeding = [fed for word in words for fed in word.fed_by]
    if feeding and _is_evaluated_often(feeding) and "".join(word.text for word in words).strip() == UNKNOWN:
        return _NOTHING
    return _script(words, "eval is given a text")


def _is_evaluated_often(commands: Sequence[Command]) -> bool:
    """Whether the output is made to be evaluated, or stands in files that are named: `eval "$(grep = .env)"`."""
    if all(command.name in _PRINTS_SETTINGS for command in commands):
        return True
    is_read = any(command.prints is None for command in commands)
    return is_read and languages.is_of_files(commands) and all(command.args for command in commands)


def _script(words: Sequence[Word], what: str) -> Runs:
    """Run words as a text, unless they are made of what cannot be known."""
    text = " ".join(word.text for word in words)
    feeding = tuple(fed for word in words for fed in word.fed_by)
    reason = f"{UNSEEN}: {what} that is made while it runs"
    if UNKNOWN in text and languages.is_downloaded(feeding):
        return Runs(reasons=(RUNS_DOWNLOAD,))
    if text.strip() == UNKNOWN:
        return Runs(reasons=(reason,))
    return Runs(texts=(text,) if text else ())


def _input(command: Command) -> Runs:
    if command.given is not None:
        return Runs(texts=(command.given,) if command.given else ())
    if not command.fed_by and any(redirect.operator == "<" for redirect in command.redirects):
        return Runs(reasons=(f"{UNSEEN}: a shell reads a file as its input",))
    return _output(command.fed_by)


def _output(feeding: Sequence[Command]) -> Runs:
    """Return what is run where a shell reads what other commands print."""
    if not feeding:
        return _NOTHING
    texts = [one.prints for one in feeding]
    if None not in texts:
        return Runs(texts=("".join(text for text in texts if text),))
    made = f"{UNSEEN}: a shell reads what is made while it runs"
    return Runs(reasons=(RUNS_DOWNLOAD if languages.is_downloaded(feeding) else made,))


def _file(word: Word, command: Command) -> Runs:
    """Run a file that the text has written."""
    writer = word.fed_by[-1]
    if writer.name in COPYING:
        sources = Options.of(writer.args, ("-t", "-m", "-o", "-g", "-S"), first_ends=False).operands
        return _inner(command, (replace(sources[0], fed_by=()), *command.args)) if sources else _NOTHING
    found = _output(word.fed_by)
    return replace(found, arguments=command.words) if found.texts else found


# Commands whose words are taken apart.

_EXECUTING = frozenset({"-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"})
_MOST_NAMES = 20
_FD_VALUED = paths.words(
    "-e -E -t -d -S -j -c -o --extension --exclude --type --max-depth --min-depth --size --threads --color --owner"
    " --changed-within --changed-before"
)
_XARGS_VALUED = paths.words(
    "-I -J -R -S -n -P -d -L -s -a -E --max-args --max-procs --max-lines --delimiter --arg-file"
)


def listed(command: Command) -> tuple[str, ...]:
    """Return a name for each place that a command lists files of: the place itself if everything in it is listed."""
    if command.name == "find":
        roots = tuple(word.text for word in roots_of(command))
        roots = roots if len(roots) <= _MOST_NAMES else (UNKNOWN,)
        return tuple(f"{root.rstrip('/')}/{'found' if narrows(command) else '*'}" for root in roots)
    if command.name in ("fd", "fdfind"):
        return _listed_by_fd(command)
    if command.name == "ls":
        places = tuple(word.text for word in Options.of(command.args).operands)[:_MOST_NAMES] or (".",)
        return tuple(f"{place.rstrip('/')}/*" for place in places)
    if command.name in ("grep", "sort", "head", "tail", "uniq", "tee", "sed", "tr", "cat") and command.fed_by:
        return command.fed_by[-1].lists
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
    return tuple(f"{root.rstrip('/')}/{'found' if narrowed else '*'}" for root in (roots or ["."])[:_MOST_NAMES])


def _found(command: Command) -> Runs:
    """`find ... -exec rm {} +`: of what it finds, the name is made up."""
    found = _NOTHING
    run: list[Word] | None = None
    names = command.lists or ("./found",)
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


def _on_each(command: Command, words: Sequence[Word], mark: str, names: Sequence[str]) -> Runs:
    """Run a command for each name, which is put in where the mark is."""
    found = _NOTHING
    for name in names:
        found += _inner(
            command,
            [
                replace(word, text=word.text.replace(mark, name), glob=word.glob or "*" in name)
                if mark in word.text
                else word
                for word in words
            ],
        )
    return found


def _each_read(command: Command) -> Runs:
    """`xargs rm`: what it reads becomes arguments."""
    options = Options.of(command.args, _XARGS_VALUED, first_ends=True)
    words = options.operands or (Word("echo"),)
    given = next((text[2:] or "{}" for text in command.texts if text.startswith("-i")), "")
    mark = options.value("-I", "--replace", "-J") or given or ("{}" if options.has("I", "replace") else "")
    read = _words_read(command, by_line=bool(mark) or options.value("-d", "--delimiter") == "\\n")
    if mark:
        return _on_each(command, words, mark, read if len(read) <= _MOST_NAMES else (UNKNOWN,))
    more = tuple(Word(text, glob="*" in text, fed_by=command.fed_by) for text in read)
    return _inner(replace(command, fed_by=(), given=None), (*words, *more))


def _words_read(command: Command, *, by_line: bool = False) -> tuple[str, ...]:
    if command.given is not None and by_line:
        return tuple(command.given.splitlines())
    if command.given is not None:
        return tuple(re.split(r"[\s\0]+", command.given.strip()))
    return (command.fed_by[-1].lists if command.fed_by else ()) or (UNKNOWN,)


def _each_given(command: Command) -> Runs:
    """`parallel rm ::: a b`."""
    texts = command.texts
    cut = next((at for at, text in enumerate(texts) if text.startswith(":::")), len(texts))
    words = Options.of(
        command.args[:cut], ("-j", "-S", "-N", "-n", "-a", "--jobs", "--sshlogin"), first_ends=True
    ).operands
    from_file = texts[cut : cut + 1] == ("::::",)
    given = (
        (Word(UNKNOWN),)
        if from_file
        else command.args[cut + 1 :] or tuple(Word(text, glob="*" in text) for text in _words_read(command))
    )
    text = " ".join(word.text for word in words)
    names = [word.text for word in given][:_MOST_NAMES]
    if not words:
        lines = tuple(command.given.splitlines()) if command.given is not None else tuple(names)
        return Runs(texts=lines[:_MOST_NAMES]) + _output(() if command.given is not None else command.fed_by)
    return Runs(texts=tuple(text.replace("{}", name) if "{}" in text else f"{text} {name}" for name in names))


def _env(command: Command) -> Runs:
    first = next((at for at, text in enumerate(command.texts) if re.match(r"-\w*S|--s", text)), None)
    if first is not None:  # however its text is attached
        text = " ".join(command.texts[first:]).replace("\\_", " ")
        words = re.sub(r"^(-\w*S|--s[a-z-]*=?)\s*", "", text)
        return Runs(texts=(f"env {words}" if words else "",))
    functions = tuple(f"f {text.partition('=')[2]}" for text in command.texts if text.startswith("BASH_FUNC_"))
    return _by_row(command, "env", _ROWS["env"]) + Runs(texts=functions)


_SSH_VALUED = paths.words("-b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w")
_SSH_COMMAND = re.compile(r"(?i)\s*(?:ProxyCommand|LocalCommand|KnownHostsCommand|RemoteCommand)[\s=]+(.*)", re.DOTALL)


def _over_ssh(command: Command) -> Runs:
    options = Options.of(command.args, _SSH_VALUED, first_ends=True)
    after = Options.of(options.operands[1:], _SSH_VALUED, first_ends=True)  # options may stand behind the host
    found = _NOTHING
    for option, value in (*options.values, *after.values):
        if option == "-o" and (match := _SSH_COMMAND.match(value)):
            found += Runs(texts=(match[1],))
    if command.name != "ssh":
        return found
    words = after.operands
    return found + (_script(words, "a shell is given a text") if words else _input(command))


_GIT_COMMANDS = re.compile(
    r"""(?xi) core\.(?:pager|editor|sshcommand|fsmonitor|askpass|gitproxy) | diff\.external | sequence\.editor
    | credential\..*helper | pager\..* | .*\.textconv | filter\..*\.(?:clean|smudge|process) | gpg\..*program
    | merge\..*\.driver | (?:diff|merge)tool\..*\.(?:cmd|path) | interactive\.difffilter
    | remote\..*\.(?:uploadpack|receivepack) | uploadpack\.packobjectshook | trailer\..*\.c(?:om)?m(?:an)?d
    | browser\..*\.cmd"""
)
_GIT_TEXTS = paths.words(
    """
    -x --exec --extcmd --upload-pack --receive-pack --tree-filter --index-filter --env-filter --msg-filter --setup
    --commit-filter --parent-filter --tag-name-filter --sendmail-cmd --open-files-in-pager -O
    """
)
_GIT_RUNNING = paths.words(
    """
    rebase difftool filter-branch fetch pull push clone archive ls-remote grep send-email fetch-pack send-pack
    """
)


def _git(command: Command) -> Runs:
    options = Options.of(
        command.args, ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env"), first_ends=True
    )
    found = Runs(
        reasons=(f"{UNSEEN}: git takes its programs from another directory",) if options.value("--exec-path") else ()
    )
    for option, value in options.values:
        if option == "-c":
            key, _, text = value.partition("=")
            found += _configured(key, text)
        elif option == "--config-env" and _configured(value.partition("=")[0], "x").texts:
            found += Runs(reasons=(f"{UNSEEN}: git takes a program from a variable",))
    words = options.operands
    if not words:
        return found
    subcommand, texts = words[0].text, [word.text for word in words[1:]]
    own = Options.of(words[1:], _GIT_TEXTS)
    if subcommand in _GIT_RUNNING:
        found += Runs(texts=tuple(value for option, value in own.values if option in _GIT_TEXTS and value))
    if subcommand == "clone":
        config = Options.of(words[1:], ("-c", "--config", "-u", "-b", "-o"))
        for option, value in config.values:
            found += Runs(texts=(value,)) if option == "-u" else _configured(*(value.partition("=")[::2]))
    if subcommand == "config":
        plain = [text for text in texts if not text.startswith("-") and text != "set"]
        found += _configured(plain[0], plain[1]) if len(plain) > 1 else _NOTHING
    elif subcommand == "submodule" and "foreach" in texts:
        found += _script(
            [word for word in words[texts.index("foreach") + 2 :] if word.text != "--recursive"],
            "a shell is given a text",
        )
    elif subcommand == "bisect" and texts[:1] == ["run"]:
        found += _inner(command, words[2:])
    return found + Runs(texts=tuple(text.partition("ext::")[2] for text in texts if text.startswith("ext::")))


def _configured(key: str, value: str) -> Runs:
    """Return what a setting of git makes it run."""
    if key.lower().startswith("alias."):
        return Runs(texts=(value[1:] if value.startswith("!") else f"git {value}",))
    if _GIT_COMMANDS.fullmatch(key):
        return Runs(texts=(value.removeprefix("!"),))
    return _NOTHING


_MAKE_VALUED = paths.words("-f -C -I -j -l -o -W --file --makefile --eval --directory")
_MAKE_SHELL = re.compile(r"\$[({]shell\s+(.*?)[)}]", re.DOTALL)


def _make(command: Command) -> Runs:
    options = Options.of(command.args, _MAKE_VALUED)
    texts = [found[1] for text in command.texts for found in _MAKE_SHELL.finditer(text)]
    texts += [text.partition(";")[2] for text in (options.value("--eval"),) if ";" in text]
    texts += [text.removeprefix("SHELL=") for text in command.texts if text.startswith("SHELL=")]
    if options.value("-f", "--file", "--makefile") in (*INPUT, "/dev/fd/63"):
        return Runs(texts=tuple(texts), reasons=(f"{UNSEEN}: make reads rules that are made while it runs",))
    return Runs(texts=tuple(texts))


def _trap(command: Command) -> Runs:
    words = behind_dashes(command.args)
    if len(words) < 2 or words[0].text in ("-", "-l", "-p"):
        return _NOTHING
    if words[0].text == UNKNOWN:
        return Runs(reasons=(f"{UNSEEN}: trap is given a text that is made while it runs",))
    return _script(words[:1], "trap is given a text")


def _from_history(command: Command) -> Runs:
    lists = command.texts[:1] in ((), ("-l",)) or (command.name == "history" and "-s" not in command.texts)
    return Runs(reasons=() if lists else (f"{UNSEEN}: it runs a command of the history",))


_SPECIAL: Mapping[str, Callable[[Command], Runs]] = {
    **dict.fromkeys(_SHELLS, _shell),
    ".": _sourced,
    "source": _sourced,
    "eval": _evaluated,
    "trap": _trap,
    "at": _input,
    "batch": _input,
    "git": _git,
    **dict.fromkeys(("make", "gmake", "ninja"), _make),
    **dict.fromkeys(("ssh", "scp", "sftp"), _over_ssh),
    "env": _env,
    "find": _found,
    "fd": _found,
    "fdfind": _found,
    "xargs": _each_read,
    "parallel": _each_given,
    "fc": _from_history,
    "history": _from_history,
}
_ASSIGNING = frozenset({"export", "declare", "typeset", "readonly", "local", "env", "sudo"})
_NAMES = frozenset({*_SPECIAL, *_BEHIND, *_ROWS, *_TEXT_OPTIONS})


def _variables(command: Command) -> Runs:
    """Return what variables make other programs run."""
    found = _NOTHING
    for name, word in (*command.assignments, *_named_values(command)):
        if name in _PROMPTS and word.text in INPUT:
            found += _input(command)
        elif name in _PROMPTS:
            found += Runs(texts=(": " + evaluated(word.text),)) + _output(word.fed_by)
        elif name in _PROGRAM_VARIABLES and word.literal:
            found += Runs(texts=(word.text.lstrip("|!"),))
        elif name in ("LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES") and word.text:
            found += Runs(reasons=(f"{UNSEEN}: {name} loads a library into each program",))
        elif name in ("TAR_OPTIONS", "MAKEFLAGS") and word.literal:
            found += Runs(texts=(f"{'tar' if name[0] == 'T' else 'make'} {word.text}",))
    return found


def _named_values(command: Command) -> Iterator[tuple[str, Word]]:
    if command.name in _ASSIGNING:
        for word in command.args:
            if match := _ASSIGNMENT.fullmatch(word.text):
                yield match[1], replace(word, text=match[2])


def _evaluates(command: Command, name: str) -> tuple[str, ...]:
    """Return the substitutions in what a builtin evaluates once more."""
    texts = command.texts
    if name in ("let", "complete", "compgen"):
        found = [text for text in texts if "$(" in text or "`" in text]
    else:
        found = [text for text in texts if _EVALUATED.search(text)]
    return tuple(": " + evaluated(text) for text in found)


def is_runner(name: str) -> bool:
    """Return True if a program of a name runs others, by its words or its input."""
    return name in _NAMES
