"""What well-known commands destroy, class by class: each module has `RULES`, by the name of the program."""
