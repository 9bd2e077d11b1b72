"""What a person sees of marks and sweeps."""
