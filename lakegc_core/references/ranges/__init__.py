"""What commits hold: metaranges and ranges."""
