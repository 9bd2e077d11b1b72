"""Answers to questions about a repository: they change nothing of it, and no sweep takes them."""
