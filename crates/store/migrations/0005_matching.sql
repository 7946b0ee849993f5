-- What becomes of an event on which the filter of a subscription gives no verdict. NULL: it is dropped and counted.
ALTER TABLE subscriptions ADD COLUMN on_filter_error TEXT;

-- What an app may get of events that their producer marked as sensitive: a list of texts. NULL: nothing.
ALTER TABLE apps ADD COLUMN permissions TEXT;
