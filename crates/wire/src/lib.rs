//! Protobuf records and their conversion from and to types.
