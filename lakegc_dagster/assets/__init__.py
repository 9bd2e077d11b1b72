"""The assets: five that mark, one that sweeps, and one between them where a team wants backups. Their bodies open the
cell and call lakegc_core."""
