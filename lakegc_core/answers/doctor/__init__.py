"""What `lakegc doctor` finds: whether a repository can be marked and swept, and what endangers it. Without Spark."""
