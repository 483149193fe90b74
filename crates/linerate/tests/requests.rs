//! docs/src/requests.md has a row for each field of each request that a server takes from a peer, and each bound
//! names a test that exists.
//!
//! The fields come from the declarations of the records. A new request, record or field fails these tests, or their
//! compilation, until the page has it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use iperf::wire::{BounceMessage, BurstParameters, Extension, Hello, TestStart};
use netperf::wire::{Capability, ReceivedRequest, Request};
use testkit::{TestCase, test_case_unless};
use udpmon::wire::MessageBlock;
use uperf::wire::{
    Endian, FlowopRecord, GroupRecord, Header, MasterCommand, SlaveInfo, TransactionRecord,
};

use crate::coverage::{Table, is_of, tables};

/// `names` are the full names of all test cases of this program.
pub(crate) fn test_cases(names: Vec<String>) -> Vec<TestCase> {
    let mut test_cases = testkit::test_cases![
        every_field_has_its_row,
        every_request_has_its_record,
        lost_and_invented_rows_are_found,
        places_of_tests,
    ];
    test_cases.push(test_case_unless(None, "every_case_exists", move || {
        every_case_exists(&names)
    }));
    test_cases
}

/// A message or record, and a field of it.
type Field = (String, String);

/// The fields of a record without a list of them, each of which has to be named here.
macro_rules! fields {
    ($record:ident: $($field:ident)+) => {{
        let _ = |record: &$record| {
            let $record { $($field: _),+ } = record;
        };
        (stringify!($record), &[$(stringify!($field)),+][..])
    }};
}

fn fields() -> BTreeSet<Field> {
    let netperf = Request::messages()
        .into_iter()
        .map(|(_, record, fields)| (record, fields));
    let around = [
        fields!(ReceivedRequest: cpu request),
        fields!(Capability: features host nonce),
        fields!(Hello: flags flows port length window amount extension start bursts key),
        fields!(Extension: upper version type_of_service rate prefetch),
        fields!(TestStart: at fq_rate),
        fields!(BurstParameters: rate mean variance gap),
        fields!(BounceMessage: size number quick_ack synchronised type_of_service stop sent served hold),
        fields!(MessageBlock: command version number sent responded length acknowledge low width offset lost_only skip received lost bad_order first_to_last stamps),
    ];
    let uperf = [
        ("Header", Header::FIELDS),
        ("GroupRecord", GroupRecord::FIELDS),
        ("TransactionRecord", TransactionRecord::FIELDS),
        ("FlowopRecord", FlowopRecord::FIELDS),
        ("SlaveInfo", SlaveInfo::FIELDS),
    ];
    let commands = (0..=u8::MAX).map(|number| of_command(command(number)));
    let all = netperf.chain(around).chain(uperf).chain(commands);
    all.flat_map(|(record, fields)| pairs(&[record], fields))
        .collect()
}

/// The command of this number.
fn command(number: u8) -> MasterCommand {
    let order = Endian::NATIVE;
    let mut bytes = MasterCommand::Other(number.into(), 0).encode(order);
    // Some of them have no value to decode.
    bytes[68..].copy_from_slice(&[0; MasterCommand::LEN - 68]);
    MasterCommand::decode(&bytes, order).unwrap_or(MasterCommand::Error)
}

fn of_command(command: MasterCommand) -> (&'static str, &'static [&'static str]) {
    match command {
        MasterCommand::NextTransaction(_) => ("NextTransaction", &["number"]),
        MasterCommand::Abort => ("Abort", &[]),
        MasterCommand::SendStatistics => ("SendStatistics", &[]),
        MasterCommand::Error => ("Error", &[]),
        MasterCommand::Other(..) => ("Other", &["number", "value"]),
    }
}

fn pairs(records: &[&str], fields: &[&str]) -> Vec<Field> {
    let of_record = |record: &&str| {
        let record = (*record).to_owned();
        let fields = fields.iter().map(|field| (*field).to_owned());
        fields
            .map(|field| (record.clone(), field))
            .collect::<Vec<_>>()
    };
    records.iter().flat_map(of_record).collect()
}

/// Each row is about each of its fields in each of its records.
fn rows(tables: &[Table]) -> Vec<Field> {
    let tables = tables.iter().filter(|table| table.head[1] == "field");
    let rows = tables.flat_map(|table| &table.rows);
    rows.flat_map(|row| pairs(&code(&row[0]), &code(&row[1])))
        .collect()
}

/// The words in code type of a cell.
fn code(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

fn page() -> Vec<Table> {
    tables("src/requests.md")
}

fn every_field_has_its_row() {
    let wrong = differences(&fields(), &rows(&page()));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn differences(fields: &BTreeSet<Field>, rows: &[Field]) -> Vec<String> {
    let mut left = fields.clone();
    let mut wrong = Vec::new();
    for row in rows {
        if !left.remove(row) {
            let why = if fields.contains(row) {
                "has two rows"
            } else {
                "has a row, and is no field"
            };
            wrong.push(format!("{} of {} {why}", row.1, row.0));
        }
    }
    let lost = left.iter();
    wrong.extend(lost.map(|(record, field)| format!("{field} of {record} has no row")));
    wrong
}

/// The first table says which requests have which record.
fn every_request_has_its_record() {
    let page = page();
    let table = page.iter().find(|table| table.head[0] == "record");
    let rows = &table.expect("a table of the records").rows;
    let listed: BTreeMap<&str, BTreeSet<&str>> = rows
        .iter()
        .map(|row| {
            let record = code(&row[0]).first().copied().unwrap_or_default();
            (record, code(&row[1]).into_iter().collect())
        })
        .collect();
    let messages = Request::messages();
    let mut known: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (request, record, _) in &messages {
        known.entry(record).or_default().insert(request);
    }
    for number in 0..=u8::MAX {
        let (name, fields) = of_command(command(number));
        if fields.is_empty() {
            known.entry("").or_default().insert(name);
        }
    }
    assert_eq!(listed, known);
}

fn every_case_exists(names: &[String]) -> Result<(), String> {
    let page = page();
    let bounds = page
        .iter()
        .filter(|table| table.head.last().is_some_and(|head| head == "case"));
    let mut wrong = Vec::new();
    let mut count = 0;
    for row in bounds.flat_map(|table| &table.rows) {
        let cases = code(&row[row.len() - 1]);
        count += cases.len();
        if cases.is_empty() {
            wrong.push(format!("{} of {}: no case", row[1], row[0]));
        }
        for case in cases {
            if !names.iter().any(|name| is_of(name, case)) && !stands_elsewhere(case) {
                wrong.push(format!("{} of {}: {case} is no test", row[1], row[0]));
            }
        }
    }
    assert!(count > 0, "the page has no bounds");
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong.join("\n"))
    }
}

/// Whether a crate has this test in one of its files, or the machine's suites have.
fn stands_elsewhere(case: &str) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let holds =
        |path: &Path, words: &str| fs::read_to_string(path).is_ok_and(|text| text.contains(words));
    if let Some((suite, name)) = case.split_once('.') {
        let path = root.join(format!("lab/suite/{suite}.sh"));
        return holds(&path, &format!("\n{name}() {{"));
    }
    let mut crates = fs::read_dir(root.join("crates"))
        .into_iter()
        .flatten()
        .flatten();
    let attribute = concat!("#[", "test]");
    let Some((module, name)) = case.rsplit_once("::tests::") else {
        let Some((suite, name)) = case.split_once("::") else {
            return false;
        };
        let test = format!("{attribute}\nfn {name}() {{");
        return crates.any(|of| holds(&of.path().join(format!("tests/{suite}.rs")), &test));
    };
    let module = module.replace("::", "/");
    let test = format!("{attribute}\n    fn {name}() {{");
    crates.any(|of| {
        let source = of.path().join("src").join(&module);
        holds(&source.with_extension("rs"), &test) || holds(&source.join("mod.rs"), &test)
    })
}

fn lost_and_invented_rows_are_found() {
    let fields: BTreeSet<Field> = pairs(&["A", "B"], &["x", "y"]).into_iter().collect();
    for (rows, expected) in [
        (pairs(&["A", "B"], &["x", "y"]), &[][..]),
        (
            pairs(&["A"], &["x", "y"]),
            &["x of B has no row", "y of B has no row"],
        ),
        (
            pairs(&["A", "B"], &["x", "y", "z"]),
            &[
                "z of A has a row, and is no field",
                "z of B has a row, and is no field",
            ],
        ),
        (
            pairs(&["A", "B", "A"], &["x", "y"]),
            &["x of A has two rows", "y of A has two rows"],
        ),
    ] {
        assert_eq!(differences(&fields, &rows), expected);
    }
    assert_eq!(code("`A`, `B<C>` and more"), ["A", "B<C>"]);
}

fn places_of_tests() {
    for (case, is_there) in [
        ("wire::work::tests::no_more_than_the_limits", true),
        ("wire::work::tests::no_more_than_the_limit", false),
        ("wire::work::tests::receive", false),
        ("wire::works::tests::no_more_than_the_limits", false),
        ("exchange::stock_requests_are_answered_within_bounds", true),
        ("exchange::stock_requests", false),
        ("modules.interfaces", true),
        ("modules.interface", false),
        ("no_more_than_the_limits", false),
    ] {
        assert_eq!(stands_elsewhere(case), is_there, "{case}");
    }
}
