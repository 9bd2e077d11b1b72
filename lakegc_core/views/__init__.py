"""Output of marks and sweeps for people and machines."""
