//! Stage two: bring each delivery to its endpoint, in order per mailbox.
