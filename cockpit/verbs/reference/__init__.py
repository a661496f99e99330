"""What the parsers say, as a page, a manual page and shell completions."""
