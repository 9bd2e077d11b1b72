"""The stages, one module each, named like the assets: how a mark is made and swept. Spark does the heavy work."""
