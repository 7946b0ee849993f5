//! The sample receiver, the demo set-up and the books that must balance.
