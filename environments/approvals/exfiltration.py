"""Exfiltration: a table of commands to send secrets elsewhere or to give a shell to a connection (reverse shell)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

from environments.approvals.command import UNKNOWN, Command, Options, Word, word_set
from environments.approvals.destruction import producer_chain
from environments.approvals.paths import is_remote, is_secret_name, secret
from environments.approvals.table import Table

TABLE = Table(
    r"""
= it gives a shell to a connection
nc ncat netcat nc.traditional ; -e -c --exec --sh-exec --lua-exec
socat ; ; ; ~(?i:(?:exec|system|pty|shell):.*)
xterm ; -display=?*:*
ttyd gotty tmate upterm sshx ztcp gs-netcat pwncat msfvenom msfconsole
wssh webtty dnscat dnscat2 iodine iodined chisel
= it makes this machine reachable from another
ssh autossh ; -R -o=remoteforward*
ngrok frpc bore zrok pagekite localtunnel lt rathole
cloudflared: ... tunnel
= it makes a repository public
gh: repo edit ; --visibility=public
glab: repo edit ; --visibility=public
= it takes a secret into a repository
git: add ; -f --force ; ; secret
= it makes a bucket public
aws: s3api put-bucket-acl|put-object-acl ; --acl=public-*
gsutil: ... ch|set ; ; ; ~allUsers.*|public-read.*
""",
    """
nc ncat netcat nc.traditional: -p -s -w -q -i -X -x -l
ssh autossh: -b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w -M
xterm: -display
gh glab: --visibility
aws: --acl
""",
    {"secret": secret},
)
_SECRET_OUTPUT = Table(
    r"""
= the output of {}
gpg ; --export-secret-keys --export-secret-subkeys
kubectl oc k: get secret|secrets|secret/*|secrets/*
aws: secretsmanager|ssm|sts get-*|assume-role
aws: configure get|export-credentials
vault bao pass gopass lpass op bw secret-tool keyring: read|kv|login|show|item|get|lookup
security: find-*-password|dump-keychain|export
git gh glab: credential|auth fill|token
gcloud az: ... print-*-token|get-access-token
heroku: config
pg_dump pg_dumpall mysqldump mariadb-dump mongodump
curl wget ; ; ; ~.*169\.254\.169\.254.*
"""
)
"""Commands that print secrets."""
_CURL = "-d --data --data-binary --data-raw --data-urlencode --data-ascii --json --url-query -F --form -T --upload-file"
_SENDERS: Mapping[str, tuple[str, str]] = {
    program: (sends, valued)
    for programs, sends, valued in (
        ("curl", _CURL, "-o -O --output -X --request -H --header -u --user -A -e -b -c --key --cert -E --cacert -K -m"),
        ("wget", "--post-file --post-data --body-file --body-data", "-O -o --header -U"),
        ("ssh scp sftp", "", "-i -F -E -S -o -p -P -l -L -J"),
        ("rsync", "", "-e --rsh --password-file --exclude-from --include-from --files-from"),
        ("rclone aws gsutil s3cmd s5cmd mc azcopy", "", "--profile --config"),
        ("gh glab", "-b --body -F --body-file", ""),
        ("az", "-f --file -s --source", ""),
        ("mail mailx sendmail mutt msmtp swaks", "-a --attach --body", "-s"),
        ("openssl", "", "-in -key -cert -CAfile -out -inkey -passin -pass"),
        ("http https xh xhs nc ncat netcat socat telnet ftp tftp lftp smbclient whois finger termbin ncftpput", "", ""),
        ("croc wormhole ipfs pastebinit ix dig nslookup host drill ping ping6 delv", "", ""),
    )
    for program in programs.split()
}
"""Programs that send data elsewhere: their options with a value to send, and their other options with a value."""
_COPYING = word_set("scp rsync sftp rclone aws gsutil s3cmd s5cmd mc azcopy gcloud")
"""Senders with the remote machine among their operands."""
_SUBCOMMANDS = {"openssl": "s_client", "gh": "gist release issue pr", "glab": "snippet issue mr", "ipfs": "add"}
_SHELLS = word_set("sh bash zsh dash ksh ash fish")
_LISTING = word_set("env printenv set export declare compgen history")
_PACKING = word_set(
    "tar zip 7z gpg base64 base32 xxd od hexdump gzip cat head tail cut tr sed awk grep strings tee dd sort cp mv ln"
    " find ls jq yq openssl zstd xz bzip2 rev fold uuencode"
)
_AUTHENTICATED = _COPYING | {"ssh", "gh", "glab", "az"}
"""Senders that authenticate with a password or key in everyday use."""
_AUTH_HEADER = re.compile(r"(?:--header=)?[\w-]*(?:auth|token|key|secret)[\w-]*:", re.IGNORECASE)
_OWN_TOKENS = ("$", "the output of gh", "the output of glab", "the output of gcloud", "the output of az")
"""Prefixes of secrets in everyday authentication headers: variables, and the output of a service's own program."""
_PUTS = re.compile(r"\bm?put\s+(?:-\S+\s+)*(\S+)")
_MARK = re.compile(r"(?:[\w.-]{1,60}=?)?[@<]|file:|FILE:|OPEN:|GOPEN:")
_MARKING = word_set("curl http https xh xhs")
"""Senders that mark a file by `@`."""
_SENDS_SECRET = "it sends secrets elsewhere ({})"  # noqa: S105 - no secret but the reason against one


def exfiltration_reason(command: Command, secret_files: Collection[str] = ()) -> str | None:
    """Return the reason why a command sends secrets elsewhere or gives a shell to a connection; None if harmless.

    Args:
        command: The command.
        secret_files: Files into which earlier commands have put secrets.
    """
    for redirect in command.redirects:
        if redirect.target.text.startswith(("/dev/tcp/", "/dev/udp/")) and not _is_port_check(command):
            return "it gives a connection to a shell (/dev/tcp)"
    if command.name == "find" and not word_set("curl wget nc ncat scp rsync").isdisjoint(command.texts):
        found = next((one for word in command.args if (one := secret(word, command))), None)
        return _SENDS_SECRET.format(found) if found else None
    inputs = tuple(one for one in command.redirects if "<" in one.operator)
    for inner in command.nested if inputs else ():  # as `sudo nc host 1 < file`
        if reason := exfiltration_reason(replace(inner, redirects=inputs), secret_files):
            return reason
    if command.name in _SENDERS:
        if found := next(_secrets_sent(command, secret_files), None):
            return _SENDS_SECRET.format(found.replace(UNKNOWN, "..."))
        if command.name in ("nc", "ncat", "netcat", "telnet", "openssl", "socat") and _feeds_from_shell(command):
            return "it gives a shell to a connection"
    return TABLE.reason(command) if command.name else None


def _is_port_check(command: Command) -> bool:
    """Return True for a port check without data, such as `echo > /dev/tcp/host/port`."""
    reads = [one.target.text for one in command.redirects if "<" in one.operator]
    return command.name in ("", ":", "true", "echo") + ("cat",) * (reads == ["/dev/null"]) and not command.args


def _feeds_from_shell(command: Command) -> bool:
    return any(one.name in _SHELLS and one.texts[:1] != ("-c",) for one in command.producers)


def _secrets_sent(command: Command, secret_files: Collection[str]) -> Iterator[str]:
    """Return the secrets among the operands, option values and standard input of a sender."""
    sends, valued = (text.split() for text in _SENDERS[command.name])
    options = Options.of(command.args, (*sends, *valued))
    operands = options.operands
    subcommands = _SUBCOMMANDS.get(command.name)
    if subcommands and (not operands or operands[0].text not in subcommands.split()):
        return
    if command.name in ("sftp", "ftp", "lftp", "smbclient"):
        printed = (command.stdin_text or "", *(one.stdout_text or "" for one in command.producers))
        puts = (found[1] for text in (*command.texts, *printed) for found in _PUTS.finditer(text))
        yield from (one for path in puts if (one := secret(Word(path), command)))
    if command.name in _COPYING and not any(map(is_remote, operands)):
        return
    if command.name == "rsync" and not is_remote(operands[-1]):
        return
    by_option = [(name, Word(text)) for name, text in options.values if name in sends]
    for option, word in (*by_option, *(("", word) for word in operands if command.name not in ("curl", "wget"))):
        plain = _MARK.sub("", word.text, count=1).partition(";")[0]
        names_file = plain != word.text or command.name not in _MARKING or option in ("-T", "--upload-file")
        found = plain if plain in secret_files else secret(Word(plain), command)
        if found and names_file and not (command.name in _COPYING and is_remote(word)):
            yield found
    has_login = command.name in _AUTHENTICATED
    for before, word in pairwise((Word(""), *command.args, *(one.target for one in command.redirects))):
        is_header = before.text in ("-u", "--user") or _AUTH_HEADER.match(word.text)
        is_login = has_login or is_header
        yield from (one for one in _secrets_printed(word.producers) if not (is_login and one.startswith(_OWN_TOKENS)))
    yield from (one for one in _secrets_printed(command.producers) if not (has_login and one[0] == "$"))
    yield from (one for item in command.redirects if "<" in item.operator and (one := secret(item.target, command)))


def _secrets_printed(commands: tuple[Command, ...]) -> Iterator[str]:
    """Return the secrets in the output of commands."""
    left = {id(command): command for command in producer_chain(commands)}
    seen: set[int] = set()
    while left:
        at, command = left.popitem()
        seen.add(at)
        left |= {id(one): one for one in command.nested if id(one) not in seen}
        if command.name in _LISTING and not [text for text in command.texts if not text.startswith("-")]:
            yield f"the output of {command.name}"
        named = [command, *(fed for word in command.args for fed in word.producers)]
        variables = [one.texts[0] for one in named if one.name == "printenv" and one.texts]
        yield from (f"${name}" for name in variables if is_secret_name(name))
        if printed := _SECRET_OUTPUT.reason(command):
            yield printed
        if command.name in _PACKING:
            for word in (*command.args, *(item.target for item in command.redirects if "<" in item.operator)):
                if found := secret(word, command):
                    yield found


def secret_copies(command: Command) -> Iterator[str]:
    """Return the files into which a command puts secrets: copies, archives, and targets of redirections."""
    if not (command.redirects or command.name in _PACKING) or command.name in _COPYING:
        return
    # A nested command without a redirection is recorded on its own.
    if next(_secrets_printed((command if command.redirects else replace(command, nested=()),)), None):
        yield from (one.target.text for one in command.redirects if one.is_output)
        yield from (word.text for word in command.args if command.name in _PACKING and not secret(word, command))
