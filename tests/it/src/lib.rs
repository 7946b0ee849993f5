//! Integration tests on real processes and real services.
