//! Whatever goes wrong around the program, it must not hang or lose anything silently.

mod calls;
mod commands;
mod inherited;
mod logs;
mod messages;
mod places;
mod shortage;
