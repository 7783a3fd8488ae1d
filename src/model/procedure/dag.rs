//! The procedures of a configuration in order of priority, with resolved dependencies.
//!
//! A `ProcedureDag` has no cycles, duplicate names or unknown dependencies.
#![expect(
    clippy::indexing_slicing,
    reason = "a `ProcedureId` is an index that the DAG itself gave out"
)]

use std::collections::HashMap;
use std::sync::Arc;

use super::{Procedure, Scope, SessionsRule};

/// The index of a procedure in a [`ProcedureDag`] and its priority (0 is first).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcedureId(pub(crate) u16);

/// The procedures, sorted by priority, and their dependencies.
#[derive(Debug, Clone)]
pub struct ProcedureDag {
    procedures: Vec<Procedure>,
    depends_on: Vec<Vec<(ProcedureId, SessionsRule)>>,
    by_name: HashMap<Arc<str>, ProcedureId>,
}

/// Why a list of procedures is not a valid pipeline. `at` is the index of the offending procedure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DagError {
    DuplicateName {
        at: usize,
        first: usize,
    },
    UnknownDependency {
        at: usize,
        /// Index in that procedure's `depends_on`.
        dependency: usize,
    },
    /// Starts and ends with the same index.
    Cycle(Vec<usize>),
}

impl ProcedureId {
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl ProcedureDag {
    /// Resolves names. Returns all errors at once.
    pub fn new(procedures: Vec<Procedure>) -> Result<Self, Vec<DagError>> {
        let mut errors = Vec::new();
        let mut by_name: HashMap<Arc<str>, ProcedureId> = HashMap::new();
        for (at, procedure) in procedures.iter().enumerate() {
            let id = ProcedureId(u16::try_from(at).unwrap_or(u16::MAX));
            if let Some(first) = by_name.get(&procedure.name) {
                let first = first.index();
                errors.push(DagError::DuplicateName { at, first });
            } else {
                by_name.insert(Arc::clone(&procedure.name), id);
            }
        }
        let mut depends_on = Vec::with_capacity(procedures.len());
        for (at, procedure) in procedures.iter().enumerate() {
            let mut ids = Vec::new();
            for (index, dependency) in procedure.depends_on.iter().enumerate() {
                match by_name.get(&dependency.procedure) {
                    Some(id) => ids.push((*id, dependency.sessions.resolve(procedure.scope))),
                    None => errors.push(DagError::UnknownDependency {
                        at,
                        dependency: index,
                    }),
                }
            }
            depends_on.push(ids);
        }
        errors.extend(find_cycle(&depends_on).map(DagError::Cycle));
        if errors.is_empty() {
            Ok(Self {
                procedures,
                depends_on,
                by_name,
            })
        } else {
            Err(errors)
        }
    }

    pub fn len(&self) -> usize {
        self.procedures.len()
    }

    pub fn is_empty(&self) -> bool {
        self.procedures.is_empty()
    }

    /// Ids and procedures in order of priority.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (ProcedureId, &Procedure)> {
        self.procedures
            .iter()
            .enumerate()
            .map(|(index, procedure)| (ProcedureId(index as u16), procedure))
    }

    /// All procedures in order of priority.
    pub fn all(&self) -> impl Iterator<Item = &Procedure> + Clone {
        self.procedures.iter()
    }

    pub fn get(&self, id: ProcedureId) -> &Procedure {
        &self.procedures[id.index()]
    }

    pub fn find(&self, name: &str) -> Option<ProcedureId> {
        self.by_name.get(name).copied()
    }

    pub fn named(&self, name: &str) -> Option<&Procedure> {
        self.find(name).map(|id| self.get(id))
    }

    /// The place of a name in lists: procedures of the configuration in its order, then all others.
    pub fn rank(&self, name: &str) -> usize {
        self.find(name).map_or(usize::MAX, ProcedureId::index)
    }

    /// The procedures that must be complete before `id`, in declaration order, with their effective rules (never
    /// [`SessionsRule::ByScope`]).
    pub fn dependencies(&self, id: ProcedureId) -> &[(ProcedureId, SessionsRule)] {
        &self.depends_on[id.index()]
    }

    /// The dependencies of session scope.
    pub fn session_dependencies(&self, id: ProcedureId) -> Vec<ProcedureId> {
        let ids = self.dependencies(id).iter().map(|(id, _)| *id);
        ids.filter(|id| self.get(*id).scope == Scope::Session)
            .collect()
    }
}

/// Finds one cycle, if there is any: repeatedly removes procedures whose dependencies are all removed, then follows
/// the dependencies of the rest.
fn find_cycle(depends_on: &[Vec<(ProcedureId, SessionsRule)>]) -> Option<Vec<usize>> {
    let next = |at: usize, left: &[usize]| {
        let mut dependencies = depends_on[at].iter().map(|(next, _)| next.index());
        dependencies.find(|next| left.contains(next))
    };
    let mut left: Vec<usize> = (0..depends_on.len()).collect();
    loop {
        let waiting = left.iter().copied().filter(|at| next(*at, &left).is_some());
        let waiting: Vec<usize> = waiting.collect();
        if waiting.len() == left.len() {
            break;
        }
        left = waiting;
    }
    let mut path = vec![*left.first()?];
    loop {
        let at = next(*path.last()?, &left)?;
        if let Some(from) = path.iter().position(|index| *index == at) {
            path.push(at);
            return Some(path.split_off(from));
        }
        path.push(at);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::procedure::testing::procedure;

    /// Procedures with these names and dependencies.
    fn procedures(list: &[(&str, &[&str])]) -> Vec<Procedure> {
        list.iter()
            .map(|(name, depends_on)| {
                let by_scope = depends_on.iter().map(|name| (*name, SessionsRule::ByScope));
                let depends_on: Vec<_> = by_scope.collect();
                procedure(name, Scope::Session, &depends_on)
            })
            .collect()
    }

    #[test]
    fn all_errors_are_reported_at_once() {
        let list = procedures(&[
            ("a", &["c", "x"]),
            ("b", &[]),
            ("a", &[]),
            ("c", &["b", "a"]),
        ]);
        assert_eq!(
            ProcedureDag::new(list).unwrap_err(),
            [
                DagError::DuplicateName { at: 2, first: 0 },
                DagError::UnknownDependency {
                    at: 0,
                    dependency: 1
                },
                DagError::Cycle(vec![0, 3, 0]),
            ]
        );
    }

    #[test]
    fn a_procedure_may_depend_on_a_later_one() {
        let dag = ProcedureDag::new(procedures(&[("a", &["b"]), ("b", &[])])).unwrap();
        let (first, _) = dag.iter().next().unwrap();
        let (on, _) = dag.dependencies(first)[0];
        assert_eq!(&*dag.get(on).name, "b");
        assert_eq!(dag.find("b"), Some(on));
        assert_eq!(dag.find("c"), None);
    }

    proptest! {
        /// Any graph has either a cycle or an order in which everything can run.
        #[test]
        fn a_valid_pipeline_can_be_completed(arrows in proptest::collection::vec((0..8usize, 0..8usize), 0..16)) {
            let names: Vec<String> = (0..8).map(|n| n.to_string()).collect();
            let on = |from: usize| -> Vec<&str> {
                let targets = arrows.iter().filter(|(source, _)| *source == from);
                targets.map(|(_, to)| names[*to].as_str()).collect()
            };
            let lists: Vec<Vec<&str>> = (0..8).map(on).collect();
            let list: Vec<(&str, &[&str])> =
                names.iter().zip(&lists).map(|(name, on)| (name.as_str(), on.as_slice())).collect();
            let mut done: Vec<&str> = Vec::new();
            while let Some((name, _)) = list.iter().find(|(name, on)| {
                !done.contains(name) && on.iter().all(|name| done.contains(name))
            }) {
                done.push(name);
            }
            let result = ProcedureDag::new(procedures(&list));
            prop_assert_eq!(result.is_ok(), done.len() == list.len());
            if let Err(errors) = result {
                let [DagError::Cycle(path)] = errors.as_slice() else {
                    return Err(TestCaseError::fail(format!("{errors:?}")));
                };
                prop_assert_eq!(path.first(), path.last());
                for pair in path.windows(2) {
                    prop_assert!(lists[pair[0]].contains(&names[pair[1]].as_str()));
                }
            }
        }
    }
}
