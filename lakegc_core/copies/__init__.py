"""Copies of objects: backup and restore."""
