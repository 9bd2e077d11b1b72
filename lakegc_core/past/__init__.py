"""The past of garbage, for people. It decides nothing."""
