"""What environments take and how they fail, as measured; one table, with where each number comes from."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

NINE_TENTHS = 1.2816
"""Where nine of ten values of a normal distribution are below, in its standard deviations."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Seconds that are spread as a lognormal distribution."""

    median: float
    high: float
    """What one in ten is above."""

    def draw(self, chance: random.Random) -> float:
        """Return one of them."""
        if not self.median:
            return 0.0
        return self.median * math.exp(chance.gauss(0, math.log(self.high / self.median) / NINE_TENTHS))


@dataclass(frozen=True, slots=True)
class Costs:
    """What an environment of one backend takes."""

    start: Spread
    """From asking for it to its first command."""
    command: Spread
    """A command that does nothing."""
    removal: Spread
    """Until its place is free again."""
    refused: float
    """How many of all starts fail."""
    lost: float
    """How many of all tasks are lost with their environment."""
    source: str
    """Where the numbers come from."""


BACKENDS = {
    "local": Costs(
        Spread(0.006, 0.012), Spread(0.00016, 0.0004), Spread(0.002, 0.004), 0.0, 0.0, "`make bench` on two cores"
    ),
    "docker": Costs(
        Spread(0.254, 0.38), Spread(0.00034, 0.0008), Spread(0.114, 0.2), 0.001, 0.001, "`make bench`, a container each"
    ),
    "ssh": Costs(
        Spread(0.09, 0.17),
        Spread(0.00024, 0.0006),
        Spread(0.005, 0.01),
        0.001,
        0.001,
        "`make bench`, a connection each",
    ),
    "modal": Costs(
        Spread(2.5, 6.0), Spread(0.036, 0.06), Spread(0.15, 0.4), 0.005, 0.005, "stand-in, 30 ms away; starts assumed"
    ),
}
"""By backend. Nobody measured how often clouds refuse or lose: those are assumptions, on the bad side."""
