"""Real small training runs on the local backend, to look at and to practise on."""
