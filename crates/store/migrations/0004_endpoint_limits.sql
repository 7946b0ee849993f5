-- What an endpoint takes: attempts at the same time, and attempts per second. NULL: no limit of its own.
ALTER TABLE endpoints ADD COLUMN max_in_flight BIGINT;

ALTER TABLE endpoints ADD COLUMN rate_per_second BIGINT;
