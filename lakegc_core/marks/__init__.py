"""The marks of a repository: their artifacts and records, which of them counts, and who else makes some."""
