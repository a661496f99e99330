"""Claims on a lineage that other machines can see (SPEC A, "Two machines")."""
