-- What holds mail and what goes first: paused endpoints, stuck heads, priorities of classes.

-- NULL: not paused. Operational state: no set-up writes it.
ALTER TABLE endpoints ADD COLUMN paused_at BIGINT;

ALTER TABLE endpoints ADD COLUMN paused_by TEXT;

ALTER TABLE endpoints ADD COLUMN head_max_age_ms BIGINT;

-- As MailboxClass::with_defaults makes it.
ALTER TABLE mailbox_classes ADD COLUMN priority BIGINT NOT NULL DEFAULT 5;
