"""TensorBoard: event files in a run's folder (SPEC S-15)."""
