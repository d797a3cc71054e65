"""Questions to a build in SQL: views over every table, and the checks that its rows must pass."""
