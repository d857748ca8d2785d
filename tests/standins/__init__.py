"""Local servers that speak the wire protocols of cloud services and really run the commands."""
