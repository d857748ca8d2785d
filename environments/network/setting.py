"""The setting `network`, in the same form for every backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from environments.errors import SettingsError

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler

_OFF, _ON = ("false", "no", "off", "0", "n", "f"), ("true", "yes", "on", "1", "y", "t")


def parse_network(value: object) -> Network:
    """Return the canonical form of a `network` setting.

    Args:
        value: `full`, `none`, a boolean, or a list of hosts, also as JSON.

    Raises:
        ValueError: The value has another form.
    """
    if isinstance(value, str) and value.lstrip().startswith("["):
        import json  # imported late: a list is rare

        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise ValueError('it should be full, none, or a list as JSON, such as ["example.org"]') from None
    if isinstance(value, list | tuple):
        from environments.network.allow_list import AllowList

        AllowList(value)
        return tuple(value)
    word = str(value).lower() if isinstance(value, str | int) else ""
    if word == "full" or word in _ON:
        return "full"
    if word == "none" or word in _OFF:
        return "none"
    raise ValueError('it should be full, none, or a list of hosts, such as ["example.org", "*.example.org"]')


def network_argument(value: object) -> Network:
    """Return the canonical form of an argument of `set_network`.

    Raises:
        SettingsError: The value is malformed, see `parse_network`.
    """
    try:
        return parse_network(value)
    except ValueError as error:
        raise SettingsError(f"network: {error}") from None


class _Checked:
    """Makes pydantic validate a setting with `parse_network`."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> Any:  # noqa: ANN401
        from pydantic_core import PydanticCustomError, core_schema

        def check(value: object) -> Network:
            try:
                return parse_network(value)
            except ValueError as error:
                raise PydanticCustomError("network", "{why}", {"why": str(error)}) from None

        return core_schema.no_info_plain_validator_function(check)


Network = Annotated[Literal["full", "none"] | tuple[str, ...], _Checked()]
"""The type of a `network` setting: the machine's network, none, or an allow list of hosts."""
