//! The delivery protocol of one partition as a sans-I/O state machine.
