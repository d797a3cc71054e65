"""Wiring: the table of stages, runners, resume, and the `build` command. Rules live in `transforms`."""
