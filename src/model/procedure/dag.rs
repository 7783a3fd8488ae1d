//! The procedures of a configuration in their order of priority, with resolved dependencies.
//!
//! A `ProcedureDag` with a cycle, a doubled name or an unknown dependency cannot be made.
//! Pure: no file system, no configuration file.
#![expect(
    clippy::indexing_slicing,
    reason = "a `ProcedureId` is an index that the DAG itself gave out"
)]

use std::collections::HashMap;
use std::sync::Arc;

use super::{Procedure, SessionsRule};

/// Points to a procedure of a [`ProcedureDag`]; its number is the procedure's priority (0 is first).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcedureId(pub(crate) u16);

/// Holds the procedures, sorted by priority, and who waits for whom.
#[derive(Debug, Clone)]
pub struct ProcedureDag {
    procedures: Vec<Procedure>,
    depends_on: Vec<Vec<(ProcedureId, SessionsRule)>>,
    by_name: HashMap<Arc<str>, ProcedureId>,
}

/// Says why a list of procedures is no pipeline. `at` is the index of the offending procedure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DagError {
    #[error("procedure '{name}' is declared twice")]
    DoubledName {
        at: usize,
        first: usize,
        name: Arc<str>,
    },
    #[error(
        "procedure '{name}' depends on '{missing}', which is not a procedure (available: {known})"
    )]
    UnknownDependency {
        at: usize,
        /// Index in that procedure's `depends_on`.
        dependency: usize,
        name: Arc<str>,
        missing: Arc<str>,
        known: String,
    },
    /// `path` starts and ends with the same name.
    #[error("procedures depend on each other in a circle: {}", .path.join(" -> "))]
    Cycle { at: usize, path: Vec<String> },
}

impl ProcedureId {
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl ProcedureDag {
    /// Resolves names; reports all problems at once.
    pub fn new(procedures: Vec<Procedure>) -> Result<Self, Vec<DagError>> {
        let mut errors = Vec::new();
        let mut by_name: HashMap<Arc<str>, ProcedureId> = HashMap::new();
        for (at, procedure) in procedures.iter().enumerate() {
            let id = ProcedureId(u16::try_from(at).unwrap_or(u16::MAX));
            if let Some(first) = by_name.get(&procedure.name) {
                errors.push(DagError::DoubledName {
                    at,
                    first: first.index(),
                    name: Arc::clone(&procedure.name),
                });
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
                        name: Arc::clone(&procedure.name),
                        missing: Arc::clone(&dependency.procedure),
                        known: sorted_names(&procedures),
                    }),
                }
            }
            depends_on.push(ids);
        }
        errors.extend(find_cycle(&procedures, &depends_on));
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

    /// Returns ids and procedures in order of priority.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (ProcedureId, &Procedure)> {
        self.procedures
            .iter()
            .enumerate()
            .map(|(index, procedure)| (ProcedureId(index as u16), procedure))
    }

    pub fn get(&self, id: ProcedureId) -> &Procedure {
        &self.procedures[id.index()]
    }

    pub fn find(&self, name: &str) -> Option<ProcedureId> {
        self.by_name.get(name).copied()
    }

    /// Returns what must be complete before `id`, in the order of its declaration. The rules are
    /// those that hold: none is [`SessionsRule::ByScope`].
    pub fn dependencies(&self, id: ProcedureId) -> &[(ProcedureId, SessionsRule)] {
        &self.depends_on[id.index()]
    }
}

fn sorted_names(procedures: &[Procedure]) -> String {
    let mut names: Vec<&str> = procedures.iter().map(|p| &*p.name).collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

/// Finds one loop, if there is any, among what is left when all procedures are taken away whose dependencies are.
fn find_cycle(
    procedures: &[Procedure],
    depends_on: &[Vec<(ProcedureId, SessionsRule)>],
) -> Option<DagError> {
    let next = |at: usize, left: &[usize]| {
        let mut dependencies = depends_on[at].iter().map(|(next, _)| next.index());
        dependencies.find(|next| left.contains(next))
    };
    let mut left: Vec<usize> = (0..procedures.len()).collect();
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
            let names = path[from..].iter().chain([&at]);
            let path = names
                .map(|index| procedures[*index].name.to_string())
                .collect();
            return Some(DagError::Cycle { at, path });
        }
        path.push(at);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::procedure::Scope;
    use crate::model::procedure::testing::procedure;

    /// Makes procedures of names and what they depend on.
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
    fn all_that_is_wrong_is_told_at_once() {
        let list = procedures(&[
            ("a", &["c", "x"]),
            ("b", &[]),
            ("a", &[]),
            ("c", &["b", "a"]),
        ]);
        let told: Vec<String> = ProcedureDag::new(list)
            .unwrap_err()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            told,
            [
                "procedure 'a' is declared twice",
                "procedure 'a' depends on 'x', which is not a procedure, there are: a, b, c",
                "procedures depend on each other in a circle: a -> c -> a",
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
        /// Whatever the arrows are: there is a loop, or an order in which everything can run.
        #[test]
        fn a_pipeline_is_one_that_can_be_worked_off(arrows in proptest::collection::vec((0..8usize, 0..8usize), 0..16)) {
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
                let [DagError::Cycle { path, .. }] = errors.as_slice() else {
                    return Err(TestCaseError::fail(format!("{errors:?}")));
                };
                prop_assert_eq!(path.first(), path.last());
                for pair in path.windows(2) {
                    let from: usize = pair[0].parse().unwrap();
                    prop_assert!(lists[from].contains(&pair[1].as_str()));
                }
            }
        }
    }
}
