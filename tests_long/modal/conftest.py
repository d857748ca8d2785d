"""Modal's stand-in, one for each file of tests, and environments on it."""

from __future__ import annotations

from standins.fixtures import fixtures_on
from standins.modal_client import modal_stand_in

service, home, make = fixtures_on("modal", modal_stand_in)
