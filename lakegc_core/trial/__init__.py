"""`lakegc try`: a repository of its own in the user's lakeFS and store, made, marked, swept, restored and removed.

This room alone writes to lakeFS, and only to the repository that it has made.
"""
