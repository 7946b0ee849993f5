//! The only outbound HTTP: address policy, DNS, TLS, caps, deadlines.
