"""Object stores: one protocol (`base`) and the stores that speak it, a package each.

Nothing here knows lakeFS: addresses are text, roots are given. Which store a storage namespace means is
decided elsewhere.
"""
