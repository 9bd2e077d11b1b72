"""The six assets: five that mark, one that sweeps. Their bodies open the cell and call the stage of lakegc_core."""
