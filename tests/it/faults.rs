//! What goes wrong around the program must neither hang it nor lose anything silently.

mod calls;
mod commands;
mod inherited;
mod logs;
mod messages;
mod places;
mod shortage;
