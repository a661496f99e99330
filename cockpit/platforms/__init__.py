"""One package per kind of job: everything that differs by kind, reading and acting."""
