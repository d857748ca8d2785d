"""Who looks on while something is done, and what they are told: a record in a file, and OpenTelemetry.

`seam` is the only place where they meet the rest: with nobody looking on, it costs next to nothing.
"""
