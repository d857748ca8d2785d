"""Variables with secrets, recognised by name or by the form of the value."""

from __future__ import annotations

NAMED = (
    "LC_PW", "LC_SSHPASS", "XDG_PAT", "XDG_SESSION", "CONDA_JWT", "CONDA_PW", "GH_PAT", "JWT", "SSHPASS", "STRIPE_SK",
    "MNEMONIC", "GPG_SEED", "OTP", "ADMIN_PW", "ENCRYPTION", "HMAC", "SALT", "SEED", "PASS", "DB_PASS", "PIN", "PAT",
    "TWILIO_SID", "SESSION", "MY_API_KEY", "SENTRY_DSN", "WALLET_SEED", "TOTP", "APP_PEPPER", "npm_config__authToken",
)  # fmt: skip
FORMED = {
    "SENTRY_URL": ("https://", "0123456789abcdef0123456789abcdef", "@o1.ingest.example/4"),
    "MONGO_URI": ("mongodb://app:", "pass-of-mongo", "@db.example/app"),
    "AMQP_URL": ("amqp://app:", "pass-of-amqp", "@mq.example"),
    "LC_NOTE": ("see ", "ghp_a1B2c3D4a1B2c3D4a1B2c3D4a1B2c3D4a1B2", ""),
}
"""Values as a prefix, the secret and a suffix."""
VARIABLES = {
    **{name: f"value-{number}-of-{name.lower()[::-1]}" for number, name in enumerate(NAMED)},
    **{name: "".join(parts) for name, parts in FORMED.items()},
}
HIDDEN = [*(VARIABLES[name] for name in NAMED), *(parts[1] for parts in FORMED.values())]
ASKED = f"import os; print([name for name in {list(VARIABLES)} if name in os.environ])"
"""A script that prints the names of the visible variables."""
SHOWN = f"print({list(VARIABLES.values())})"
"""A script that prints the values."""
