"""lakeFS as seen from outside: its API, and its file formats (ranges, metaranges, dumps). No policy of collection."""
