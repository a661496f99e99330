"""Real small training runs as jobs of this machine, to look at and to practise on."""
