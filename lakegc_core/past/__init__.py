"""Where garbage came from. For people: it decides nothing."""
