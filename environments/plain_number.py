"""Formatting of numbers for people."""

from __future__ import annotations


def plain_number(value: float) -> str:
    """Return a number, such as seconds, without exponent and trailing zeros.

    Args:
        value: The number, rounded to three decimals; below 1 to three significant digits.
    """
    from decimal import Decimal  # rarely needed

    text = f"{value:.3f}" if abs(value) >= 1 else f"{Decimal(f'{value:.3g}'):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
