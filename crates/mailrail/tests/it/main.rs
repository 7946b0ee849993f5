//! The binary as its users run it: real processes, real sockets, real services, real kills.
//!
//! Tests that need a service read its address from the environment that `tests/services/with` gives; without it they say
//! so and pass, unless MAILRAIL_TEST_REQUIRE=1.

mod brokers;
mod bytes;
mod canary;
mod chaos;
mod command_line;
mod crashes;
mod dead_letters;
mod dlq_page;
mod explain;
mod feed;
mod fleet;
mod held;
mod history;
mod kills;
mod limits;
mod offsets;
mod operators;
mod outages;
mod prepare;
mod printing;
mod process;
mod resizing;
mod rig;
mod services;
mod sizing;
mod stages;
mod traces;
mod unread_logs;
