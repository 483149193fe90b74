//! What people meet in `linerate run` and in the messages and files of all programs.

#![cfg(feature = "run")]

#[path = "run/datagrams.rs"]
mod datagrams;
#[path = "run/early.rs"]
mod early;
#[cfg(feature = "uperf")]
#[path = "run/files.rs"]
mod files;
#[path = "run/firewall.rs"]
mod firewall;
#[path = "run/messages.rs"]
mod messages;
#[path = "run/settings.rs"]
mod settings;
