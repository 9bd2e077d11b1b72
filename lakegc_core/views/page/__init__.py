"""Pages of HTML for people: of a mark, and of all repositories. One file each; they need no scripts and no network."""
