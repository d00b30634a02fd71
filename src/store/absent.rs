//! In place of the stores that this build lacks: they refuse to open.

/// Without the feature `redis`.
#[cfg(not(feature = "redis"))]
pub(super) mod redis {
    use std::time::Duration;

    use anyhow::anyhow;

    use crate::config::{Rate, Server};
    use crate::exit::Exit;
    use crate::store::{Policy, Store, StoreError};
    use crate::time::Time;

    pub(in super::super) fn open(
        _: &Server,
        _: Policy,
        _: &[Rate],
        _: Duration,
        _: impl Fn() -> Time + Send + 'static,
    ) -> Result<Box<dyn Store>, StoreError> {
        Err(refusal())
    }

    pub(in super::super) fn reset(_: &Server, _: Duration) -> Result<(), StoreError> {
        Err(refusal())
    }

    fn refusal() -> StoreError {
        let why = "this throttle was built without servers: build it with --features redis, or name a file";
        StoreError { exit: Exit::Usage, error: anyhow!(why) }
    }
}

/// Without the feature `sqlite`.
#[cfg(not(feature = "sqlite"))]
pub(super) mod file {
    use anyhow::anyhow;

    use crate::config::State;
    use crate::exit::Exit;
    use crate::store::{Policy, Status, Store, StoreError};
    use crate::time::Time;

    pub(in super::super) fn open(
        _: &State,
        _: Policy,
        _: impl Fn() -> Time + Send + 'static,
    ) -> Result<Box<dyn Store>, StoreError> {
        Err(refusal())
    }

    pub(in super::super) fn reset(_: &State) -> Result<(), StoreError> {
        Err(refusal())
    }

    pub(in super::super) fn status(_: &State, _: Time) -> Result<Option<Status>, StoreError> {
        Err(refusal())
    }

    fn refusal() -> StoreError {
        let why = "this throttle was built without files: build it with --features sqlite, or use redis://";
        StoreError { exit: Exit::Usage, error: anyhow!(why) }
    }
}

#[cfg(test)]
mod tests {
    #[cfg(not(feature = "redis"))]
    #[test]
    fn a_server_is_refused_with_advice() {
        let server = "redis://localhost/n".parse().unwrap();
        let error = super::redis::reset(&server, std::time::Duration::ZERO).unwrap_err();
        assert_eq!(error.exit, crate::exit::Exit::Usage);
        assert!(error.error.to_string().contains("built without servers"));
    }

    #[cfg(not(feature = "sqlite"))]
    #[test]
    fn a_file_is_refused_with_advice() {
        let error = super::file::reset(&crate::config::State::Name("n".to_owned())).unwrap_err();
        assert_eq!(error.exit, crate::exit::Exit::Usage);
        assert!(error.error.to_string().contains("built without files"));
    }
}
