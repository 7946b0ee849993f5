-- What tenants set up. BYTES is BYTEA on Postgres and BLOB on SQLite; everything else is the same text on both.

CREATE TABLE tenants (
    tenant TEXT NOT NULL PRIMARY KEY,
    name   TEXT NOT NULL
);

CREATE TABLE event_types (
    tenant       TEXT NOT NULL REFERENCES tenants (tenant),
    name         TEXT NOT NULL,
    ordering_key TEXT,
    PRIMARY KEY (tenant, name)
);

CREATE TABLE apps (
    tenant TEXT NOT NULL REFERENCES tenants (tenant),
    id     TEXT NOT NULL,
    name   TEXT NOT NULL,
    PRIMARY KEY (tenant, id)
);

CREATE TABLE endpoints (
    tenant     TEXT NOT NULL,
    id         TEXT NOT NULL,
    app        TEXT NOT NULL,
    url        TEXT NOT NULL,
    headers    TEXT NOT NULL,
    timeout_ms BIGINT,
    PRIMARY KEY (tenant, id),
    FOREIGN KEY (tenant, app) REFERENCES apps (tenant, id)
);

CREATE TABLE endpoint_secrets (
    tenant     TEXT   NOT NULL,
    endpoint   TEXT   NOT NULL,
    position   BIGINT NOT NULL,
    sealed     BYTES  NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, endpoint, position),
    FOREIGN KEY (tenant, endpoint) REFERENCES endpoints (tenant, id)
);

CREATE TABLE subscriptions (
    tenant          TEXT NOT NULL,
    id              TEXT NOT NULL,
    app             TEXT NOT NULL,
    endpoint        TEXT NOT NULL,
    event_types     TEXT NOT NULL,
    filter_language TEXT,
    filter_text     TEXT,
    PRIMARY KEY (tenant, id),
    FOREIGN KEY (tenant, app) REFERENCES apps (tenant, id),
    FOREIGN KEY (tenant, endpoint) REFERENCES endpoints (tenant, id)
);

CREATE TABLE api_keys (
    tenant TEXT  NOT NULL REFERENCES tenants (tenant),
    id     TEXT  NOT NULL,
    hash   BYTES NOT NULL UNIQUE,
    PRIMARY KEY (tenant, id)
);

CREATE TABLE changes (
    seq    BIGINT NOT NULL PRIMARY KEY,
    tenant TEXT   NOT NULL,
    kind   TEXT   NOT NULL,
    entity TEXT   NOT NULL,
    op     TEXT   NOT NULL
);

CREATE TABLE key_check (
    id     BIGINT NOT NULL PRIMARY KEY,
    sealed BYTES  NOT NULL
);
