"""Running commands, files, threads and HTTP, with deadlines and caps; knows nothing of runs."""
