//! What people meet in `linerate run` and in the messages and files of all programs.

#![cfg(feature = "run")]

#[path = "run/messages.rs"]
mod messages;
