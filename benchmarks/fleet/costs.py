"""Times and failures of environments, as measured, with the source of each number."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

NINE_TENTHS = 1.2816
"""The ninetieth percentile of a normal distribution, in standard deviations."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Seconds in a lognormal distribution."""

    median: float
    high: float
    """The ninetieth percentile."""

    def draw(self, chance: random.Random) -> float:
        """Return a random value."""
        if not self.median:
            return 0.0
        return self.median * math.exp(chance.gauss(0, math.log(self.high / self.median) / NINE_TENTHS))


@dataclass(frozen=True, slots=True)
class Costs:
    """Times and failures of a backend's environments."""

    start: Spread
    """From the request to the first command."""
    command: Spread
    """An empty command."""
    removal: Spread
    """Until the place is free again."""
    refused: float
    """The share of failed starts."""
    lost: float
    """The share of tasks lost with their environment."""
    source: str
    """The source of the numbers."""


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
"""By backend. Failure rates of clouds are pessimistic assumptions, not measurements."""
