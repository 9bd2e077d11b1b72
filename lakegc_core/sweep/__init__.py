"""Deletes what a mark found expired and a fresh look confirmed."""
