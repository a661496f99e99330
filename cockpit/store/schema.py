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
    (
        "CREATE TABLE actions (number INTEGER PRIMARY KEY, run TEXT NOT NULL, action TEXT NOT NULL,"
        " plan_id TEXT NOT NULL, operator TEXT NOT NULL, launch_id TEXT, job_id TEXT,"
        " holder TEXT NOT NULL, plan TEXT NOT NULL, facts TEXT NOT NULL, begun_at REAL NOT NULL,"
        " ended_at REAL, outcome TEXT, message TEXT NOT NULL DEFAULT '',"
        " recorded INTEGER NOT NULL DEFAULT 1)",
        "CREATE INDEX actions_of_run ON actions (run, begun_at)",
        "CREATE UNIQUE INDEX launch_ids ON actions (run, launch_id) WHERE launch_id IS NOT NULL",
        "CREATE TABLE action_steps (action INTEGER NOT NULL REFERENCES actions (number)"
        " ON DELETE CASCADE, place INTEGER NOT NULL, name TEXT NOT NULL, state TEXT NOT NULL,"
        " at REAL NOT NULL, note TEXT, PRIMARY KEY (action, place)) WITHOUT ROWID",
        "CREATE TABLE leases (run TEXT PRIMARY KEY, action INTEGER NOT NULL, what TEXT NOT NULL,"
        " operator TEXT NOT NULL, holder TEXT NOT NULL, at REAL NOT NULL)",
        "CREATE TABLE plans (run TEXT NOT NULL, plan_id TEXT NOT NULL, action TEXT NOT NULL,"
        " at REAL NOT NULL, words TEXT NOT NULL, document TEXT NOT NULL,"
        " PRIMARY KEY (run, action, plan_id)) WITHOUT ROWID",
        "CREATE TABLE snapshots (run TEXT NOT NULL, launch_id TEXT NOT NULL, at REAL NOT NULL,"
        " document TEXT NOT NULL, PRIMARY KEY (run, launch_id)) WITHOUT ROWID",
        "CREATE TABLE followups (run TEXT NOT NULL, launch_id TEXT NOT NULL, at REAL NOT NULL,"
        " document TEXT NOT NULL, PRIMARY KEY (run, launch_id)) WITHOUT ROWID",
        "CREATE TABLE failures (run TEXT NOT NULL, job_id TEXT NOT NULL, at REAL NOT NULL,"
        " document TEXT NOT NULL, PRIMARY KEY (run, job_id)) WITHOUT ROWID",
        "CREATE TABLE rejections (run TEXT NOT NULL, path TEXT NOT NULL, step INTEGER NOT NULL,"
        " at REAL NOT NULL, who TEXT NOT NULL, reason TEXT NOT NULL, PRIMARY KEY (run, path))"
        " WITHOUT ROWID",
        "CREATE TABLE outbox (number INTEGER PRIMARY KEY, run TEXT NOT NULL, event TEXT NOT NULL,"
        " at REAL NOT NULL, document TEXT NOT NULL, sent_at REAL, answer TEXT,"
        " tries INTEGER NOT NULL DEFAULT 0, tried_at REAL, due REAL, trouble TEXT,"
        " trouble_at REAL, claim TEXT, claimed_at REAL, UNIQUE (run, event))",
        "CREATE TABLE notified (run TEXT NOT NULL, event TEXT NOT NULL, route TEXT NOT NULL,"
        " at REAL NOT NULL, tries INTEGER NOT NULL DEFAULT 0, done INTEGER NOT NULL DEFAULT 0,"
        " trouble TEXT, PRIMARY KEY (run, event, route)) WITHOUT ROWID",
    ),
    (
        "CREATE TABLE ends (run TEXT NOT NULL, job_id TEXT NOT NULL, started_at REAL,"
        " who TEXT NOT NULL, at REAL NOT NULL)",
        "CREATE UNIQUE INDEX each_end ON ends (run, job_id, ifnull(started_at, -1))",
        "INSERT INTO ends SELECT run, job_id, NULL, who, at FROM endings",
        "DROP TABLE endings",
    ),
    (
        "ALTER TABLE owners ADD COLUMN ticks INTEGER",
        "ALTER TABLE owners ADD COLUMN boot TEXT",
    ),
    (
        "CREATE TABLE beats (process TEXT PRIMARY KEY, count INTEGER NOT NULL, at REAL NOT NULL,"
        " steady REAL, boot TEXT, every REAL NOT NULL, stand_in TEXT, stood_in_at REAL)"
        " WITHOUT ROWID",
        "CREATE TABLE turns (run TEXT NOT NULL, what TEXT NOT NULL, at REAL NOT NULL, steady REAL,"
        " boot TEXT, claim TEXT NOT NULL, claimant TEXT NOT NULL, state TEXT NOT NULL,"
        " PRIMARY KEY (run, what)) WITHOUT ROWID",
        "ALTER TABLE notified ADD COLUMN steady REAL",
        "ALTER TABLE notified ADD COLUMN boot TEXT",
        "ALTER TABLE notified ADD COLUMN claim TEXT",
    ),
    ("ALTER TABLE phases ADD COLUMN since REAL",),
    ("CREATE TABLE settings (run TEXT PRIMARY KEY, at REAL NOT NULL, present TEXT, former TEXT)",),
    (
        "CREATE TABLE pasts (run TEXT NOT NULL, at REAL NOT NULL, changed INTEGER NOT NULL,"
        " verdict TEXT NOT NULL, face TEXT NOT NULL, base REAL, document BLOB NOT NULL)",
        "CREATE UNIQUE INDEX moments ON pasts (run, at)",
        "CREATE INDEX bases ON pasts (run, at) WHERE base IS NULL",
    ),
    (
        "CREATE TABLE agent_acts (number INTEGER PRIMARY KEY, run TEXT NOT NULL,"
        " agent TEXT NOT NULL, action TEXT NOT NULL, plan_id TEXT NOT NULL, at REAL NOT NULL,"
        " stage TEXT NOT NULL, changed_at REAL NOT NULL, until REAL, who TEXT,"
        " said TEXT NOT NULL DEFAULT '', times INTEGER NOT NULL DEFAULT 1)",
        "CREATE INDEX agent_acts_of_run ON agent_acts (run, changed_at)",
        "CREATE TABLE agent_calls (run TEXT NOT NULL, agent TEXT NOT NULL, tool TEXT NOT NULL,"
        " ended TEXT NOT NULL, hour REAL NOT NULL, count INTEGER NOT NULL, last_at REAL NOT NULL,"
        " PRIMARY KEY (run, agent, tool, ended, hour)) WITHOUT ROWID",
    ),
    (
        "CREATE TABLE consents (run TEXT NOT NULL, what TEXT NOT NULL, who TEXT NOT NULL,"
        " at REAL NOT NULL, PRIMARY KEY (run, what)) WITHOUT ROWID",
    ),
    (
        "CREATE TABLE launch_files (run TEXT NOT NULL, at REAL NOT NULL, file_id TEXT NOT NULL,"
        " PRIMARY KEY (run, at)) WITHOUT ROWID",
    ),
    ("CREATE TABLE begun_anew (at REAL NOT NULL)",),
    (
        "CREATE TABLE offers (ref TEXT PRIMARY KEY, code TEXT NOT NULL, file TEXT NOT NULL,"
        " at REAL NOT NULL, steady REAL, boot TEXT, document TEXT NOT NULL, used_at REAL)"
        " WITHOUT ROWID",
        "CREATE INDEX offer_codes ON offers (file, code)",
        "CREATE TABLE answers (run TEXT NOT NULL, source TEXT NOT NULL, answer TEXT NOT NULL,"
        " at REAL NOT NULL, who TEXT NOT NULL, said TEXT NOT NULL, state TEXT NOT NULL,"
        " result TEXT NOT NULL DEFAULT '', times INTEGER NOT NULL DEFAULT 1,"
        " PRIMARY KEY (run, source, answer)) WITHOUT ROWID",
    ),
    ("ALTER TABLE phases ADD COLUMN accelerators INTEGER",),
    (
        "ALTER TABLE answers ADD COLUMN holder TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE answers ADD COLUMN place TEXT NOT NULL DEFAULT ''",
    ),
    ("UPDATE answers SET holder = '' WHERE state != 'taken'",),
    # of its own: an older version that has the store open yet leaves its holder with what has ended
    ("ALTER TABLE answers ADD COLUMN owed INTEGER NOT NULL DEFAULT 0",),
)
