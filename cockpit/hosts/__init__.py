"""One host, near or far: the same questions to this machine and to an ssh host."""
