"""Reads lakeFS's files of metaranges and ranges into Arrow tables."""
