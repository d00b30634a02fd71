//! Where the pump can live: the real world, and a simulated one in which waiting takes no time.

pub mod real;
pub mod sim;
