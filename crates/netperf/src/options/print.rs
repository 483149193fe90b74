//! What was typed → [`Print`].

use super::global::Global;
use super::selection::Selected;
use super::test::{Printed, TestOptions};
use super::{Direction, Form, Print, Selection, Test, Unit, uuid};

/// How the result of `test` is printed.
pub(super) fn print(
    test: Test,
    direction: Direction,
    global: &Global,
    options: &TestOptions,
    command_line: String,
) -> Print {
    let print = global.settings.print.clone();
    Print {
        unit: unit(test, direction, global.unit),
        histogram_buckets: global.histogram_buckets.unwrap_or(print.histogram_buckets),
        latency: wants_latency(global, options),
        call_sizes: (options.here.send.size, options.here.receive.size),
        form: form(test, options.output.as_ref()),
        uuid: options.uuid.clone().unwrap_or_else(uuid::generate),
        command_line,
        ..print
    }
}

/// Whether anybody asks for latency statistics.
pub(super) fn wants_latency(global: &Global, options: &TestOptions) -> bool {
    global.settings.print.latency || options.needs().latency
}

/// Transactions where those are counted, as the stock tool tells from the test's name.
fn unit(test: Test, direction: Direction, asked: Option<Unit>) -> Unit {
    let transactions =
        test.name().contains("RR") || (test == Test::Omni && direction.is_transactional());
    match asked {
        None if transactions => Unit('x'),
        None => Unit('m'),
        Some(Unit('x')) if !transactions => Unit('m'),
        Some(unit) => unit,
    }
}

fn form(test: Test, output: Option<&(Printed, Selected)>) -> Form {
    match output {
        None if test == Test::Omni => Form::Human(Selection::Default),
        None => Form::Table,
        Some((printed, Selected { selection, .. })) => match printed {
            Printed::Human => Form::Human(selection.clone()),
            Printed::Csv => Form::Csv(selection.clone()),
            Printed::KeyVal => Form::KeyVal(selection.clone()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Settings, netperf};
    use crate::selector::Selector;

    #[test]
    fn the_last_form_wins() {
        let throughput =
            Selection::Blocks(vec![Selector::by_name("THROUGHPUT").into_iter().collect()]);
        for (line, form) in [
            ("", Form::Table),
            ("-t OMNI", Form::Human(Selection::Default)),
            ("-- -k", Form::KeyVal(Selection::Default)),
            ("-- -o ?", Form::Csv(Selection::List)),
            ("-- -O throughput", Form::Human(throughput.clone())),
            ("-- -O throughput -k", Form::KeyVal(Selection::Default)),
        ] {
            assert_eq!(run(line).print.form, form, "{line}");
        }
    }

    #[test]
    fn the_command_line_is_kept_with_its_blanks() {
        let args = ["-B", "a b", "--", "-k"].map(Into::into);
        let settings = netperf("./netperf", args).unwrap();
        assert_eq!(settings.print.command_line, "./netperf -B a b -- -k");
        assert_eq!(settings.print.brand.as_deref(), Some("a b"));
    }

    fn run(line: &str) -> Settings {
        netperf("netperf", line.split_whitespace().map(Into::into))
            .unwrap_or_else(|exit| panic!("{line}: {exit:?}"))
    }
}
