"""Environments that are awaited, on asyncio and on trio."""
