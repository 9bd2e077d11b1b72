"""Answers to questions about a repository: read only, and no sweep takes them."""
