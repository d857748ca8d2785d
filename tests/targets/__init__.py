"""Engines, servers and backends for tests."""
