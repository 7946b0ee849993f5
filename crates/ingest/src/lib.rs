//! The front door: accept events over HTTP and append them to the log.
