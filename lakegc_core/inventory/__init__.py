"""What lies in the storage namespace."""
