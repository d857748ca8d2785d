"""Daytona's stand-in, one for each file of tests, and environments on it."""

from __future__ import annotations

from standins.daytona_client import daytona_stand_in
from standins.fixtures import fixtures_on

service, home, make = fixtures_on("daytona", daytona_stand_in)
