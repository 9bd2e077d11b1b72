"""What branches show, although no dump of the server names it."""
