-- SPDX-License-Identifier: Apache-2.0
-- RUN/samples.db: trajectories, fetched on demand. Thinned from the oldest steps when it outgrows
-- telemetry.max_size, so unlike telemetry.db it is not append-only.

CREATE TABLE store (
  id      TEXT NOT NULL,
  version INTEGER NOT NULL,
  created REAL NOT NULL
);

CREATE TABLE attempt (       -- as in telemetry.db: rows of a superseded step are not shown
  attempt   INTEGER PRIMARY KEY,
  from_step INTEGER NOT NULL
);

CREATE TABLE sample (
  id             INTEGER PRIMARY KEY,
  step           INTEGER NOT NULL,
  attempt        INTEGER NOT NULL,
  prompt         INTEGER NOT NULL, -- ordinal of the prompt within the run; samples of one prompt and step are a group
  sample         INTEGER NOT NULL, -- index within that group
  eval           INTEGER NOT NULL,
  data_set       TEXT,             -- NULL: the training data
  prompt_text    TEXT NOT NULL,
  response_text  TEXT NOT NULL,
  answer         TEXT,
  reward         REAL,             -- NULL: failed
  reason         TEXT,             -- why it failed
  parts          TEXT NOT NULL,    -- JSON object of reward functions; null: that one failed
  advantage      REAL,
  finish         TEXT NOT NULL,    -- eos, stop, length
  policy_version INTEGER NOT NULL,
  prompt_ids     BLOB,             -- int32, little-endian, as response_ids
  response_ids   BLOB,
  logprobs       BLOB,             -- float32, little-endian, one per response token, as the next two
  kl             BLOB,
  advantages     BLOB,
  versions       BLOB              -- int32 pairs, little-endian: so many response tokens in a row, sampled by this version
                                   -- (-1: not sampled, an environment's); NULL: all by policy_version
);
CREATE INDEX sample_step ON sample (step, prompt, sample);
