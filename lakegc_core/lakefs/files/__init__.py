"""How lakeFS stores metaranges and ranges in files, read into Arrow tables."""
