"""The objects in the storage namespace."""
