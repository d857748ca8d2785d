"""The setting `network`, in the one form that it has for every backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from environments.errors import SettingsError

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler

_OFF, _ON = ("false", "no", "off", "0", "n", "f"), ("true", "yes", "on", "1", "y", "t")


def checked_network(value: object) -> Network:
    """Return the one form of a `network` setting.

    Args:
        value: `full`, `none`, a truth value, or a list of hosts, also as JSON.

    Raises:
        ValueError: It is something else.
    """
    if isinstance(value, str) and value.lstrip().startswith("["):
        import json  # most have no list

        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise ValueError('it should be full, none, or a list as JSON, such as ["example.org"]') from None
    if isinstance(value, list | tuple):
        from environments.network.rules import Rules

        Rules(value)
        return tuple(value)
    word = str(value).lower() if isinstance(value, str | int) else ""
    if word == "full" or word in _ON:
        return "full"
    if word == "none" or word in _OFF:
        return "none"
    raise ValueError('it should be full, none, or a list of hosts, such as ["example.org", "*.example.org"]')


def network_argument(value: object) -> Network:
    """Return the one form of an argument of `set_network`.

    Raises:
        SettingsError: It is none, see `checked_network`.
    """
    try:
        return checked_network(value)
    except ValueError as error:
        raise SettingsError(f"network: {error}") from None


class _Checked:
    """Has pydantic check a setting by `checked_network`."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> Any:  # noqa: ANN401
        from pydantic_core import PydanticCustomError, core_schema

        def check(value: object) -> Network:
            try:
                return checked_network(value)
            except ValueError as error:
                raise PydanticCustomError("network", "{why}", {"why": str(error)}) from None

        return core_schema.no_info_plain_validator_function(check)


Network = Annotated[Literal["full", "none"] | tuple[str, ...], _Checked()]
"""The type of a `network` setting: the machine's network, none, or the hosts that can be reached."""
