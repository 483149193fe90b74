//! The output settings of a test: [`PrintOptions`] from the typed options.

use super::global::GlobalOptions;
use super::selection::Selected;
use super::test::{SelectorFormat, TestOptions};
use super::{OutputForm, PrintOptions, Selection, Test, TestDirection, ThroughputUnit, uuid};

/// Returns how to print the result of `test`.
pub(super) fn print_options(
    test: Test,
    direction: TestDirection,
    global: &GlobalOptions,
    options: &TestOptions,
    command_line: String,
) -> PrintOptions {
    let print = global.settings.print.clone();
    PrintOptions {
        unit: throughput_unit(test, direction, global.unit),
        histogram_buckets: global.histogram_buckets.unwrap_or(print.histogram_buckets),
        latency: needs_latency(global, options),
        call_sizes: (options.local.send.size, options.local.receive.size),
        form: output_form(test, options.output.as_ref()),
        uuid: options.uuid.clone().unwrap_or_else(uuid::generate),
        command_line,
        ..print
    }
}

/// Whether `-j` or a selector needs latency statistics.
pub(super) fn needs_latency(global: &GlobalOptions, options: &TestOptions) -> bool {
    global.settings.print.latency || options.needs().latency
}

/// Returns the unit of throughput. Like stock, it recognises request/response tests by name.
fn throughput_unit(
    test: Test,
    direction: TestDirection,
    requested: Option<ThroughputUnit>,
) -> ThroughputUnit {
    let is_transactional =
        test.name().contains("RR") || (test == Test::Omni && direction.is_transactional());
    match requested {
        None if is_transactional => ThroughputUnit('x'),
        None => ThroughputUnit('m'),
        Some(ThroughputUnit('x')) if !is_transactional => ThroughputUnit('m'),
        Some(unit) => unit,
    }
}

fn output_form(test: Test, output: Option<&(SelectorFormat, Selected)>) -> OutputForm {
    match output {
        None if test == Test::Omni => OutputForm::Human(Selection::Default),
        None => OutputForm::Table,
        Some((format, Selected { selection, .. })) => match format {
            SelectorFormat::Human => OutputForm::Human(selection.clone()),
            SelectorFormat::Csv => OutputForm::Csv(selection.clone()),
            SelectorFormat::KeyVal => OutputForm::KeyVal(selection.clone()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Settings, parse_netperf};
    use crate::selector::Selector;

    #[test]
    fn the_last_form_wins() {
        let throughput =
            Selection::Blocks(vec![Selector::by_name("THROUGHPUT").into_iter().collect()]);
        for (line, form) in [
            ("", OutputForm::Table),
            ("-t OMNI", OutputForm::Human(Selection::Default)),
            ("-- -k", OutputForm::KeyVal(Selection::Default)),
            ("-- -o ?", OutputForm::Csv(Selection::List)),
            ("-- -O throughput", OutputForm::Human(throughput.clone())),
            (
                "-- -O throughput -k",
                OutputForm::KeyVal(Selection::Default),
            ),
        ] {
            assert_eq!(parse(line).print.form, form, "{line}");
        }
    }

    #[test]
    fn the_command_line_is_kept_with_its_blanks() {
        let args = ["-B", "a b", "--", "-k"].map(Into::into);
        let settings = parse_netperf("./netperf", args).unwrap();
        assert_eq!(settings.print.command_line, "./netperf -B a b -- -k");
        assert_eq!(settings.print.brand.as_deref(), Some("a b"));
    }

    fn parse(line: &str) -> Settings {
        parse_netperf("netperf", line.split_whitespace().map(Into::into))
            .unwrap_or_else(|exit| panic!("{line}: {exit:?}"))
    }
}
