"""A program with tools of its own for a script: `python examples/own_tools.py`.

The tools are functions of this process, with its memory and its credentials. The script runs in the configured
environment (this machine by default), imports the tools from `hermes_tools`, and sees neither memory nor credentials.
"""

from __future__ import annotations

from code_execution import execute_code
from environments import create_environment

ORDERS = {
    17: {"customer": "Ada", "total": 120.0, "paid": True},
    18: {"customer": "Grace", "total": 75.5, "paid": False},
    19: {"customer": "Edsger", "total": 310.0, "paid": False},
}
reminded: list[str] = []


def find_orders(paid: bool) -> list[int]:
    """Return the numbers of all paid orders, or of all unpaid orders."""
    return [number for number, order in ORDERS.items() if order["paid"] is paid]


def read_order(number: int) -> dict[str, object]:
    """Return an order: customer, total and paid."""
    return ORDERS[number]


def remind(customer: str, amount: float) -> None:
    """Send a customer a reminder."""
    reminded.append(f"{customer} owes {amount:.2f}")


SCRIPT = """
from hermes_tools import find_orders, read_order, remind

open_total = 0.0
for number in find_orders(paid=False):
    order = read_order(number)
    open_total += order["total"]
    remind(order["customer"], amount=order["total"])
print(f"open: {open_total:.2f}")
missing = read_order(99)
print(f"as expected: {missing['error']}")
"""

if __name__ == "__main__":
    with create_environment() as env:
        result = execute_code(
            SCRIPT, env=env, timeout=30, tools={tool.__name__: tool for tool in (find_orders, read_order, remind)}
        )
    print(result.output, end="")
    print(f"{result.status}, {result.tool_calls_made} calls, reminded: {', '.join(reminded)}")
