//! Stage one: decide which subscriptions want an event.
