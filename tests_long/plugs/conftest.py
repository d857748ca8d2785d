"""What is in `suites` runs in the environments of the frameworks, and cannot be imported in this one."""

collect_ignore = ["suites"]
