//! Parse, compile, evaluate and explain subscription filters.
