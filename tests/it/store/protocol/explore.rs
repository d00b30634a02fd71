//! Visits every state that a model can reach, breadth first.

use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;

/// A model of what can happen, step by step.
pub(super) trait Model {
    type State;
    type Action: Copy + Debug;

    fn start(&self) -> Self::State;

    /// All steps from a state.
    fn steps(&self, state: &Self::State) -> Vec<(Self::Action, Self::State)>;

    /// States with the same key have the same future.
    fn key(&self, state: &Self::State) -> Vec<u8>;

    fn is_bad(&self, state: &Self::State) -> bool;
}

/// The reachable states, by number, and the steps between them.
pub(super) struct Graph<A> {
    steps: Vec<Vec<(A, usize)>>,
    /// How each state but the first was first reached.
    origins: Vec<Option<(usize, A)>>,
    bad: Option<usize>,
}

impl<A: Copy + Debug> Graph<A> {
    /// Visits all states, or those up to the first bad one.
    ///
    /// # Panics
    /// There are more than `most`.
    pub(super) fn explore<M: Model<Action = A>>(model: &M, most: usize) -> Self {
        let mut graph = Graph { steps: Vec::new(), origins: vec![None], bad: None };
        let mut to_visit = VecDeque::from([model.start()]);
        let mut numbers = HashMap::from([(model.key(&to_visit[0]), 0)]);
        while let Some(state) = to_visit.pop_front() {
            let from = graph.steps.len();
            graph.steps.push(Vec::new());
            for (action, next) in model.steps(&state) {
                let fresh = graph.origins.len();
                let number = *numbers.entry(model.key(&next)).or_insert(fresh);
                graph.steps[from].push((action, number));
                if number == fresh {
                    assert!(fresh < most, "more than {most} states");
                    graph.origins.push(Some((from, action)));
                    if model.is_bad(&next) {
                        graph.bad = Some(number);
                        return graph;
                    }
                    to_visit.push_back(next);
                }
            }
        }
        graph
    }

    pub(super) fn states(&self) -> usize {
        self.origins.len()
    }

    /// The shortest way to a bad state, if one can be reached.
    pub(super) fn way_to_bad(&self) -> Option<Vec<A>> {
        self.bad.map(|state| self.way_to(state))
    }

    /// Whether there is such a step.
    pub(super) fn has(&self, is_such: impl Fn(A) -> bool) -> bool {
        self.steps.iter().flatten().any(|(action, _)| is_such(*action))
    }

    /// The shortest way to a state.
    pub(super) fn way_to(&self, mut state: usize) -> Vec<A> {
        let mut way = Vec::new();
        while let Some((from, action)) = self.origins[state] {
            way.push(action);
            state = from;
        }
        way.reverse();
        way
    }

    /// A state from which no `good` step can be reached.
    pub(super) fn dead_end(&self, good: impl Fn(A) -> bool) -> Option<usize> {
        let mut reversed = vec![Vec::new(); self.states()];
        let mut hopeful = vec![false; self.states()];
        let mut to_visit = Vec::new();
        for (from, steps) in self.steps.iter().enumerate() {
            steps.iter().for_each(|(_, to)| reversed[*to].push(from));
            if steps.iter().any(|(action, _)| good(*action)) {
                hopeful[from] = true;
                to_visit.push(from);
            }
        }
        while let Some(state) = to_visit.pop() {
            for &from in &reversed[state] {
                if !std::mem::replace(&mut hopeful[from], true) {
                    to_visit.push(from);
                }
            }
        }
        hopeful.iter().position(|is_hopeful| !is_hopeful)
    }

    /// A state that can recur for ever, by steps of which at least one is `passing` and none is `good`.
    pub(super) fn endless(&self, good: impl Fn(A) -> bool, passing: impl Fn(A) -> bool) -> Option<usize> {
        let components = self.components(&good);
        let is_inside = |from: usize, (action, to): &(A, usize)| {
            passing(*action) && !good(*action) && components[from] == components[*to]
        };
        (0..self.steps.len()).find(|&from| self.steps[from].iter().any(|step| is_inside(from, step)))
    }

    /// Numbers the strongly connected components of the graph without its `good` steps (Tarjan 1972, without
    /// recursion).
    fn components(&self, good: &impl Fn(A) -> bool) -> Vec<usize> {
        const NONE: usize = usize::MAX;
        let states = self.states();
        let (mut index, mut low, mut component) = (vec![NONE; states], vec![0; states], vec![NONE; states]);
        let (mut stack, mut count) = (Vec::new(), 0);
        for root in 0..states {
            let mut calls = if index[root] == NONE { vec![(root, 0)] } else { Vec::new() };
            while let Some((state, step)) = calls.pop() {
                if step == 0 {
                    (index[state], low[state]) = (count, count);
                    count += 1;
                    stack.push(state);
                } else {
                    let to = self.steps[state][step - 1].1;
                    if component[to] == NONE && !good(self.steps[state][step - 1].0) {
                        low[state] = low[state].min(low[to]);
                    }
                }
                let next = self.steps[state][step..].iter().position(|(action, _)| !good(*action));
                if let Some(skipped) = next {
                    let to = self.steps[state][step + skipped].1;
                    calls.push((state, step + skipped + 1));
                    if index[to] == NONE {
                        calls.push((to, 0));
                    }
                } else if low[state] == index[state] {
                    while let Some(member) = stack.pop() {
                        component[member] = state;
                        if member == state {
                            break;
                        }
                    }
                }
            }
        }
        component
    }
}
