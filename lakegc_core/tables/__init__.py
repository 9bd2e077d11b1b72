"""Relations over parts of Parquet: gathering rows, scanning keys, one hash of an address."""
