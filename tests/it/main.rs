//! The whole program, as its users meet it.

mod generated;
