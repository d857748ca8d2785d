"""What people would use instead, each in an environment of its own: a process that measures itself when it is asked."""
