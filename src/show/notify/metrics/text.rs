//! The text format of Prometheus, version 0.0.4: families of samples with labels.

use std::fmt::Write as _;

/// A metrics file in the making. Each family's name is written once.
#[derive(Debug)]
pub(super) struct Text {
    out: String,
    /// A label of each sample, because files of several studies may be read together.
    project: String,
}

const PREFIX: &str = "snbb_scheduler_";

impl Text {
    pub(super) fn new(project: &str) -> Self {
        Self {
            out: String::new(),
            project: escaped(project),
        }
    }

    /// Adds a family, unless it has no samples.
    pub(super) fn family<'a>(
        &mut self,
        name: &'static str,
        help: &str,
        samples: impl IntoIterator<Item = (Vec<(&'static str, &'a str)>, f64)>,
    ) {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return;
        }
        let kind = match name.ends_with("_total") {
            true => "counter",
            false => "gauge",
        };
        let _ = writeln!(self.out, "# HELP {PREFIX}{name} {help}");
        let _ = writeln!(self.out, "# TYPE {PREFIX}{name} {kind}");
        for (labels, value) in samples {
            let _ = write!(self.out, "{PREFIX}{name}{{project=\"{}\"", self.project);
            for (label, value) in labels {
                let _ = write!(self.out, ",{label}=\"{}\"", escaped(value));
            }
            let _ = writeln!(self.out, "}} {value}");
        }
    }

    /// Adds a family with one sample and no further labels.
    pub(super) fn one(&mut self, name: &'static str, help: &str, value: f64) {
        self.family(name, help, [(Vec::new(), value)]);
    }

    pub(super) fn finish(self) -> String {
        self.out
    }
}

fn escaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_empty_families_left_out() {
        let mut text = Text::new("p");
        text.family("none", "Nothing", []);
        text.family(
            "some",
            "Something",
            [(vec![("a", "x\\y\"z\n"), ("b", "é")], 0.5)],
        );
        text.one("runs_total", "Runs", 3.0);
        assert_eq!(
            text.finish(),
            "# HELP snbb_scheduler_some Something\n\
             # TYPE snbb_scheduler_some gauge\n\
             snbb_scheduler_some{project=\"p\",a=\"x\\\\y\\\"z\\n\",b=\"é\"} 0.5\n\
             # HELP snbb_scheduler_runs_total Runs\n\
             # TYPE snbb_scheduler_runs_total counter\n\
             snbb_scheduler_runs_total{project=\"p\"} 3\n"
        );
    }
}
