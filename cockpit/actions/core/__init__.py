"""How every action runs: plan, confirm, journal, do, verify, record (SPEC A)."""
