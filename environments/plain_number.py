"""Numbers as people write them."""

from __future__ import annotations


def plain_number(value: float) -> str:
    """Return a number, such as one of seconds, without an exponent and without zeros behind the point.

    Args:
        value: The number. Of a fraction three digits are shown, of one below 1 the first three that say something.
    """
    from decimal import Decimal  # with the first number that is told, which most programs never do

    text = f"{value:.3f}" if abs(value) >= 1 else f"{Decimal(f'{value:.3g}'):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
