"""The table of leaks: secrets that are sent elsewhere, and shells that are given to a connection."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from environments.approvals.command import UNKNOWN, Command, Word
from environments.approvals.deeds import chain
from environments.approvals.options import Options
from environments.approvals.paths import remote, secret, words
from environments.approvals.table import Table

_TABLE = Table(
    r"""
= it gives a shell to a connection
nc ncat netcat nc.traditional ; -e -c --exec --sh-exec --lua-exec
socat ; ; ; ~(?i:(?:exec|system|pty|shell):.*)
xterm ; -display=?*:*
ttyd gotty tmate upterm sshx
wssh webtty dnscat dnscat2 iodine iodined chisel
= it makes this machine reachable from another
ssh autossh ; -R
= it makes a repository public
gh: repo edit ; --visibility=public
glab: repo edit ; --visibility=public
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
)
_CURL = "-d --data --data-binary --data-raw --data-urlencode --data-ascii --json --url-query -F --form -T --upload-file"
_SENDERS: Mapping[str, tuple[str, str]] = {
    "curl": (_CURL, "-o -O --output -X --request -H --header -u --user -A -e -b -c --key --cert -E --cacert -K -m"),
    "wget": ("--post-file --post-data --body-file --body-data", "-O -o --header -U"),
    **dict.fromkeys(("http", "https", "xh", "xhs"), ("", "")),
    **dict.fromkeys(("nc", "ncat", "netcat", "socat", "telnet"), ("", "")),
    "ssh": ("", "-i -F -E -S -o -p -l -L -J"),
    **dict.fromkeys(("scp", "sftp"), ("", "-i -F -o -P -S -J")),
    "rsync": ("", "-e --rsh --password-file --exclude-from --include-from --files-from"),
    **dict.fromkeys(("rclone", "aws", "gsutil", "s3cmd", "s5cmd", "mc", "azcopy"), ("", "--profile --config")),
    **dict.fromkeys(("gh", "glab"), ("", "")),
    **dict.fromkeys(("mail", "mailx", "sendmail", "mutt", "msmtp", "swaks"), ("-a --attach --body", "-s")),
    **dict.fromkeys(("ftp", "tftp", "lftp", "ncftpput", "croc", "wormhole", "ipfs", "pastebinit", "ix"), ("", "")),
    **dict.fromkeys(("dig", "nslookup", "host", "drill", "ping", "ping6", "delv"), ("", "")),
    "openssl": ("", "-in -key -cert -CAfile -out -inkey -passin -pass"),
}
"""Programs that send data elsewhere: their options whose values are sent, and others that are followed by a value."""
_COPYING = words("scp rsync sftp rclone aws gsutil s3cmd s5cmd mc azcopy gcloud")
"""Senders of operands of which one names the other machine."""
_SUBCOMMANDS = {"openssl": ("s_client",), "gh": ("gist", "release"), "glab": ("snippet",), "ipfs": ("add",)}
_SHELLS = words("sh bash zsh dash ksh ash fish")
_LISTING = words("env printenv set export declare compgen history")
_PACKING = words(
    """
    tar zip 7z gpg base64 base32 xxd od hexdump gzip cat head tail cut tr sed awk grep strings tee dd sort cp
    """
)
_MARK = re.compile(r"(?:[\w.-]+=|[\w.-]+)?[@<]|file:|FILE:|OPEN:|GOPEN:")
_MARKING = words("curl http https xh xhs")
"""Senders that are given a file by `@`."""
_SENDS_SECRET = "it sends secrets elsewhere ({})"  # noqa: S105 - no secret but the reason against one


def leak(command: Command) -> str | None:
    """Return the reason why a command sends secrets elsewhere or gives a shell to a connection; None if it does not."""
    for redirect in command.redirects:
        if redirect.target.text.startswith(("/dev/tcp/", "/dev/udp/")) and not _only_knocks(command):
            return "it gives a connection to a shell (/dev/tcp)"
    if command.name in _SENDERS:
        if found := next(_sent(command), None):
            return _SENDS_SECRET.format(found.replace(UNKNOWN, "..."))
        if command.name in ("nc", "ncat", "netcat", "telnet", "openssl", "socat") and _reads_shell(command):
            return "it gives a shell to a connection"
    return _TABLE.reason(command) if command.name else None


def _only_knocks(command: Command) -> bool:
    """Return True for `echo > /dev/tcp/host/port` and the like, which waits for a port and sends nothing."""
    return command.name in ("", ":", "true", "echo") and not command.args


def _reads_shell(command: Command) -> bool:
    return any(one.name in _SHELLS and one.texts[:1] != ("-c",) for one in command.fed_by)


def _sent(command: Command) -> Iterator[str]:
    """Return the secrets among the things that a program sends: operands, values of options, and its input."""
    sends, valued = (text.split() for text in _SENDERS[command.name])
    options = Options.of(command.args, (*sends, *valued))
    operands = options.operands
    subcommands = _SUBCOMMANDS.get(command.name)
    if subcommands and (not operands or operands[0].text not in subcommands):
        return
    if command.name in _COPYING and not any(map(remote, operands)):
        return
    if command.name == "rsync" and not remote(operands[-1]):
        return
    by_option = [(name, Word(text)) for name, text in options.values if name in sends]
    for option, word in (*by_option, *(("", word) for word in operands if command.name not in ("curl", "wget"))):
        plain = _MARK.sub("", word.text, count=1).partition(";")[0]
        names_file = plain != word.text or command.name not in _MARKING or option in ("-T", "--upload-file")
        if names_file and not (command.name in _COPYING and remote(word)) and (found := secret(Word(plain), command)):
            yield found
    for word in command.args:
        yield from _read_by(word.fed_by)
    yield from _read_by(command.fed_by)
    yield from (one for item in command.redirects if "<" in item.operator and (one := secret(item.target, command)))


def _read_by(commands: tuple[Command, ...]) -> Iterator[str]:
    """Return the secrets that commands print."""
    for command in chain(commands):
        if command.name in _LISTING and not [text for text in command.texts if not text.startswith("-")]:
            yield f"the output of {command.name}"
        if command.name in _PACKING:
            for word in (*command.args, *(item.target for item in command.redirects if "<" in item.operator)):
                if found := secret(word, command):
                    yield found
