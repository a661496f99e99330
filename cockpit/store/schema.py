"""The store's tables, one migration after another; the file's ``user_version`` counts them."""

from __future__ import annotations

APPLICATION_ID = 0x434B5054

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE reports (run TEXT PRIMARY KEY, at REAL NOT NULL, document TEXT NOT NULL)",
        "CREATE TABLE observations (run TEXT NOT NULL, at REAL NOT NULL, verdict TEXT NOT NULL,"
        " phase TEXT, step INTEGER, loss REAL, PRIMARY KEY (run, at)) WITHOUT ROWID",
        "CREATE TABLE alerts (number INTEGER PRIMARY KEY, run TEXT NOT NULL, key TEXT NOT NULL,"
        " document TEXT NOT NULL, opened_at REAL NOT NULL, closed_at REAL,"
        " seen INTEGER NOT NULL DEFAULT 0)",
        "CREATE UNIQUE INDEX open_alerts ON alerts (run, key) WHERE closed_at IS NULL",
        "CREATE INDEX closed_alerts ON alerts (run, closed_at)",
        "CREATE TABLE acknowledgements (number INTEGER PRIMARY KEY, alert INTEGER NOT NULL"
        " REFERENCES alerts (number) ON DELETE CASCADE, who TEXT NOT NULL, at REAL NOT NULL,"
        " until REAL, reason TEXT)",
        "CREATE INDEX alert_acknowledgements ON acknowledgements (alert, at)",
        "CREATE TABLE phases (run TEXT NOT NULL, at REAL NOT NULL, phase TEXT NOT NULL,"
        " job_id TEXT, PRIMARY KEY (run, at)) WITHOUT ROWID",
        "CREATE TABLE checkpoint_marks (run TEXT NOT NULL, at REAL NOT NULL,"
        " complete INTEGER NOT NULL, newest INTEGER, PRIMARY KEY (run, at)) WITHOUT ROWID",
        "CREATE TABLE launches (run TEXT NOT NULL, at REAL NOT NULL, job_id TEXT NOT NULL,"
        " launch_id TEXT, PRIMARY KEY (run, at)) WITHOUT ROWID",
        "CREATE TABLE owners (run TEXT PRIMARY KEY, owner TEXT NOT NULL, host TEXT NOT NULL,"
        " pid INTEGER NOT NULL, started_at REAL, since REAL NOT NULL, heartbeat REAL NOT NULL,"
        " cadence REAL NOT NULL)",
        "CREATE TABLE endings (run TEXT NOT NULL, job_id TEXT NOT NULL, who TEXT NOT NULL,"
        " at REAL NOT NULL, PRIMARY KEY (run, job_id)) WITHOUT ROWID",
    ),
)
