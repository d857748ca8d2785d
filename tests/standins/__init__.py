"""Stand-ins of cloud services: local servers with the services' wire protocols, and real execution of commands."""
