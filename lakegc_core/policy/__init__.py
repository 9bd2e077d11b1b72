"""Rules on what may be done, and to what: pure functions that read nothing and ask nobody."""
