"""lakegc.yaml: what its values must be to one another, and to what lakeFS says."""
