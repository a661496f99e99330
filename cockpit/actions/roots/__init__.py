"""What acts on checkpoint roots, wherever they lie: marks, moves aside, deletes (SPEC A-4, A-6)."""
