"""The metadata of materialisations: figures to plot, tables to read. Pure functions over manifests and results.

Nothing here decides anything, but for a few values that lakegc finds again by name (`entries`).
"""
