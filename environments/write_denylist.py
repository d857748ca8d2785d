"""Where the file tools do not write unless they are told otherwise."""

from __future__ import annotations

_SHELLS = (
    *("~/.bashrc", "~/.bash_profile", "~/.bash_login", "~/.bash_logout", "~/.bash_aliases", "~/.profile"),
    *("~/.zshrc", "~/.zshenv", "~/.zprofile", "~/.zlogin", "~/.zlogout", "~/.config/fish"),
)
"""What the next shell of the target's user runs."""
_SESSIONS = ("~/.config/autostart", "~/.config/systemd", "~/Library/LaunchAgents")
"""What the user's next login runs."""
_CREDENTIALS = (
    *("~/.ssh", "~/.gnupg", "~/.aws", "~/.azure", "~/.config/gcloud", "~/.kube", "~/.docker"),
    *("~/.netrc", "~/.pgpass", "~/.git-credentials", "~/.gitconfig", "~/.config/git", "~/.npmrc", "~/.pypirc"),
)
"""Keys, and what says which keys open what and which program is asked for them."""
_SYSTEM = (
    *("/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow", "/etc/sudoers", "/etc/sudoers.d", "/etc/doas.conf"),
    *("/etc/pam.d", "/etc/ssh", "/etc/profile", "/etc/profile.d", "/etc/bash.bashrc", "/etc/environment"),
    *("/etc/crontab", "/etc/cron.d", "/etc/cron.hourly", "/etc/cron.daily", "/etc/cron.weekly", "/etc/cron.monthly"),
    *("/var/spool/cron", "/etc/systemd", "/etc/init.d", "/etc/ld.so.preload", "/etc/ld.so.conf", "/etc/ld.so.conf.d"),
    "/boot",
)
"""Who may do what on the target, and what it runs by itself."""

WRITE_DENYLIST = (*_CREDENTIALS, *_SHELLS, *_SESSIONS, "~/.hermes/config.yaml", *_SYSTEM)
"""Files, and directories with all below them, of the target: `~` is its user's home."""
