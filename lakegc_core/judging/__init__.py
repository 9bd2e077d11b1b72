"""The difference between what lies there and what is referred to, and what keeps an object all the same."""
