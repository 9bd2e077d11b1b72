"""Metaranges and ranges: what commits hold."""
