"""All that refers to objects at one moment. A mark and each look of a sweep ask the same questions."""
