"""Finds what is wrong with a setup, before a mark finds out."""
