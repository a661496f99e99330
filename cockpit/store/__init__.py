"""The store: one SQLite file of observations, alerts, journal and ownership."""
