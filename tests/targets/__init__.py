"""What tests run on: engines and servers of this machine, and backends made for tests."""
