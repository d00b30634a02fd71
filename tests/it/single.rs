//! Limiters with one history for all items. The library's unit tests include this file too.

use throttle::rule::Rule;

use super::{Algorithm, History, Limiter, Terms, Visitor};

pub(crate) fn single(algorithm: Algorithm, terms: Terms) -> Box<dyn Limiter> {
    struct Build(Terms);

    impl Visitor for Build {
        type Output = Box<dyn Limiter>;

        fn visit<R: Rule>(self) -> Box<dyn Limiter> {
            Box::new(History::common(R::new(self.0)))
        }
    }

    algorithm.visit(Build(terms))
}
