//! The course of a run: actions that come before any decision, and its exit.

use std::collections::VecDeque;

use anyhow::Error;

use super::{Action, Notice};
use crate::exit::Exit;

/// The actions to do before anything else is decided, and the exit.
pub(super) struct Course {
    actions: VecDeque<Action>,
    pub(super) exit: Exit,
    /// Nothing more is released.
    pub(super) is_stopping: bool,
}

impl Course {
    pub(super) fn new() -> Self {
        Course { actions: VecDeque::new(), exit: Exit::Done, is_stopping: false }
    }

    pub(super) fn next(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    pub(super) fn push(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    pub(super) fn tell(&mut self, notice: Notice) {
        self.push(Action::Tell(Box::new(notice)));
    }

    /// Raises the exit: of several, the highest decides the exit status.
    pub(super) fn raise(&mut self, exit: Exit) {
        self.exit = self.exit.max(exit);
    }

    /// Releases nothing more, and ends with `exit` unless a higher one comes up.
    pub(super) fn end(&mut self, exit: Exit) {
        self.raise(exit);
        self.is_stopping = true;
    }

    /// Ends as successful, whatever has failed or was left. A signal or an error of our own still counts.
    pub(super) fn succeed(&mut self) {
        if self.exit <= Exit::Refused {
            self.exit = Exit::Done;
        }
        self.is_stopping = true;
    }

    pub(super) fn give_up(&mut self, exit: Exit, error: Error) {
        self.tell(Notice::Error(error));
        self.end(exit);
    }
}
