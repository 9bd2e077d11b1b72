"""Objects that branches show although no staged dump names them."""
