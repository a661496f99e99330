"""``python -m run_cockpit``: in the wheel this file lies at ``run_cockpit/__main__.py``."""

from run_cockpit import main

if __name__ == "__main__":
    main()
