-- Request ids are scoped to the author of their commit and expire. Old programs neither see nor break it:
-- they go on using the column commits.request_id, which therefore stays unique. A commit whose id an earlier
-- commit holds there has null in that column. Its canonical bytes have the id.

-- Which commit a request made. Rows older than 7 days are deleted; nothing else depends on them.
CREATE TABLE requests (
    author       TEXT    NOT NULL,
    request_id   TEXT    NOT NULL,
    revision     INTEGER NOT NULL,
    committed_at TEXT    NOT NULL,
    CONSTRAINT requests_pkey PRIMARY KEY (author, request_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX requests_time ON requests (committed_at);

INSERT INTO requests (author, request_id, revision, committed_at)
SELECT author, request_id, revision, committed_at FROM commits
WHERE request_id IS NOT NULL AND committed_at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-7 days');
