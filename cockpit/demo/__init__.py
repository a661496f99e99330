"""Real small training runs on this machine, to look at and to practise on."""
