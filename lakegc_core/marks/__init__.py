"""What marks leave for marks: who else has made some, and which of them counts."""
