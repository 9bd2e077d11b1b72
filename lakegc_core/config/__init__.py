"""lakegc.yaml and lakectl's file: what may stand in them, and the frozen values that come of it."""
