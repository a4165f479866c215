-- SPDX-License-Identifier: Apache-2.0
-- RUN/telemetry.db. Append-only: nothing is changed or deleted, an end is a row of its own.
-- One counter numbers the rows of all tables but `store`, without gaps: "rows with seq > N" is the
-- whole protocol between a writer and its viewers. Times are seconds since 1970 from a clock that
-- cannot go back within an attempt. A step of -1 means: belongs to no step.

CREATE TABLE store (
  id      TEXT NOT NULL,     -- UUID of this store: another one means "start again at seq 0"
  version INTEGER NOT NULL,  -- of this schema
  created REAL NOT NULL
);

CREATE TABLE attempt (       -- a start or a resume; supersedes earlier rows at or above from_step
  seq        INTEGER PRIMARY KEY,
  attempt    INTEGER NOT NULL UNIQUE,
  from_step  INTEGER NOT NULL,
  time       REAL NOT NULL,
  host       TEXT NOT NULL,
  pid        INTEGER NOT NULL,
  start_time INTEGER NOT NULL, -- of the process, in clock ticks since boot
  boot_id    TEXT NOT NULL,
  version    TEXT NOT NULL     -- of the program
);

CREATE TABLE attempt_end (
  seq       INTEGER PRIMARY KEY,
  attempt   INTEGER NOT NULL UNIQUE,
  step      INTEGER NOT NULL,
  time      REAL NOT NULL,
  outcome   TEXT NOT NULL,   -- finished, stopped, failed, interrupted, timed_out, preempted
  exit_code INTEGER NOT NULL,
  message   TEXT
);

CREATE TABLE metric (
  seq    INTEGER PRIMARY KEY,
  metric INTEGER NOT NULL UNIQUE,
  name   TEXT NOT NULL UNIQUE,
  unit   TEXT NOT NULL,
  help   TEXT NOT NULL,
  better TEXT NOT NULL       -- up, down, neither
);

CREATE TABLE point (
  metric  INTEGER NOT NULL,
  seq     INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  step    INTEGER NOT NULL,
  time    REAL NOT NULL,
  value   REAL,              -- NULL is a NaN that was measured
  PRIMARY KEY (metric, seq)
) WITHOUT ROWID;
CREATE UNIQUE INDEX point_seq ON point (seq);

CREATE TABLE event (
  seq     INTEGER PRIMARY KEY,
  attempt INTEGER NOT NULL,
  step    INTEGER NOT NULL,
  time    REAL NOT NULL,
  level   TEXT NOT NULL,     -- info, warning, error
  kind    TEXT NOT NULL,     -- checkpoint, eval, stage, nan, ...
  message TEXT NOT NULL
);

CREATE TABLE phase (         -- the timeline
  seq     INTEGER PRIMARY KEY,
  attempt INTEGER NOT NULL,
  step    INTEGER NOT NULL,
  worker  TEXT NOT NULL,
  name    TEXT NOT NULL,
  start   REAL NOT NULL,
  "end"   REAL NOT NULL
);
