"""What may be done, and to what: pure rules that read nothing and ask nobody."""
