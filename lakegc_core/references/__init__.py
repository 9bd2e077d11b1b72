"""What refers to objects, at one moment: the same questions for a mark and for each look of a sweep."""
