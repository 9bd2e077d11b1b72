"""Objects that branches show although no dump of the server names them."""
