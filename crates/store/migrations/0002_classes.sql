-- Classes of mailboxes, integrations with third parties, and traffic that is turned away.
--
-- The columns that name a class have no foreign key: SQLite cannot add one with a default. Writers are alone (see
-- Database::write) and check it.

CREATE TABLE mailbox_classes (
    id                   TEXT   NOT NULL PRIMARY KEY,
    tolerates_reordering BIGINT NOT NULL,
    threads              BIGINT NOT NULL,
    payloads_per_thread  BIGINT NOT NULL,
    buckets_max          BIGINT NOT NULL,
    fixed_buckets        BIGINT NOT NULL
);

-- The two that always exist, as MailboxClass::with_defaults makes them.
INSERT INTO mailbox_classes (id, tolerates_reordering, threads, payloads_per_thread, buckets_max, fixed_buckets)
VALUES ('tolerant', 1, 4, 4, 64, 10), ('strict', 0, 4, 4, 64, 10);

ALTER TABLE tenants ADD COLUMN source_class TEXT NOT NULL DEFAULT 'strict';

ALTER TABLE endpoints ADD COLUMN class TEXT NOT NULL DEFAULT 'tolerant';

CREATE TABLE integrations (
    tenant   TEXT NOT NULL REFERENCES tenants (tenant),
    id       TEXT NOT NULL,
    provider TEXT NOT NULL,
    cells    TEXT NOT NULL,
    class    TEXT,
    PRIMARY KEY (tenant, id)
);

CREATE TABLE integration_secrets (
    tenant      TEXT   NOT NULL,
    integration TEXT   NOT NULL,
    position    BIGINT NOT NULL,
    sealed      BYTES  NOT NULL,
    PRIMARY KEY (tenant, integration, position),
    FOREIGN KEY (tenant, integration) REFERENCES integrations (tenant, id)
);

CREATE TABLE shed (
    position    BIGINT NOT NULL PRIMARY KEY,
    provider    TEXT   NOT NULL,
    tenant      TEXT,
    integration TEXT
);
