"""The files of `suites` run in the frameworks' virtual environments, and cannot be imported in this one."""

collect_ignore = ["suites"]
