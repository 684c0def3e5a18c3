-- Request ids are scoped to the author of their commit and expire.

-- Which commit a request made. Rows older than 7 days are deleted; nothing else depends on them.
CREATE TABLE requests (
    author       text        COLLATE "C" NOT NULL,
    request_id   text        COLLATE "C" NOT NULL,
    revision     bigint      NOT NULL,
    committed_at timestamptz NOT NULL,
    CONSTRAINT requests_pkey PRIMARY KEY (author, request_id),
    CONSTRAINT requests_revision_positive CHECK (revision > 0)
);

CREATE INDEX requests_time ON requests (committed_at);

INSERT INTO requests (author, request_id, revision, committed_at)
SELECT author, request_id, revision, committed_at FROM commits
WHERE request_id IS NOT NULL AND committed_at > now() - interval '7 days';
