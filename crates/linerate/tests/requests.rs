//! Checks that docs/src/requests.md has one row per field of each request that a server receives,
//! and that each bound names an existing test.
//!
//! The fields come from the declarations of the records. After a new request, record or field,
//! these tests fail, or do not compile, until the page contains it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use iperf::wire::{BounceMessage, BurstParameters, Extension, Hello, TestStart};
use iperf3::wire::Parameters;
use netperf::wire::{Capability, ReceivedRequest, Request};
use testkit::{TestCase, test_case_unless};
use udpmon::wire::MessageBlock;
use uperf::wire::{
    Endian, FlowopRecord, GroupRecord, Header, MasterCommand, SlaveInfo, TransactionRecord,
};

use crate::coverage::{Table, has_name_or_group, tables};

/// `names` are the full names of all test cases of this program.
pub(crate) fn test_cases(names: Vec<String>) -> Vec<TestCase> {
    let mut test_cases = testkit::test_cases![
        each_field_has_one_row,
        lists_requests_of_each_record,
        reports_missing_and_unknown_rows,
        finds_tests_outside_this_program,
    ];
    test_cases.push(test_case_unless(
        None,
        "each_bound_names_existing_tests",
        move || each_bound_names_existing_tests(&names),
    ));
    test_cases
}

/// A message or record, and a field of it.
type Field = (String, String);

/// The name and fields of a record without a constant of its fields. It does not compile unless it
/// names all fields.
macro_rules! fields {
    ($record:ident: $($field:ident)+) => {{
        let _ = |record: &$record| {
            let $record { $($field: _),+ } = record;
        };
        (stringify!($record), &[$(stringify!($field)),+][..])
    }};
}

/// Returns all fields of all records.
fn declared_fields() -> BTreeSet<Field> {
    let netperf = Request::messages()
        .into_iter()
        .map(|(_, record, fields)| (record, fields));
    let other_records = [
        fields!(ReceivedRequest: cpu request),
        fields!(Capability: features host nonce),
        fields!(Hello: flags flows transfer_id port length window amount extension start bursts congestion_control key),
        fields!(Extension: upper version type_of_service rate prefetch),
        fields!(TestStart: at fq_rate),
        fields!(BurstParameters: rate mean variance gap),
        fields!(BounceMessage: size number quick_ack synchronised type_of_service stop sent served hold reply_bytes),
        fields!(Parameters: protocol omit server_affinity time bytes blocks max_segment no_delay parallel direction multipath window block_bytes rate fq_rate pacing_timer burst type_of_service flow_label title extra_data congestion server_output udp_counters_64bit repeating_payload zero_copy do_not_fragment skip_copy offload token client_version udp_cookie),
        fields!(MessageBlock: command version number sent responded length acknowledge low width offset lost_only skip received lost bad_order first_to_last stamps),
    ];
    let uperf = [
        ("Header", Header::FIELDS),
        ("GroupRecord", GroupRecord::FIELDS),
        ("TransactionRecord", TransactionRecord::FIELDS),
        ("FlowopRecord", FlowopRecord::FIELDS),
        ("SlaveInfo", SlaveInfo::FIELDS),
    ];
    let commands = (0..=u8::MAX).map(|number| command_record(command(number)));
    let records = netperf.chain(other_records).chain(uperf).chain(commands);
    records
        .flat_map(|(record, fields)| pairs(&[record], fields))
        .collect()
}

/// Returns the command with this number.
fn command(number: u8) -> MasterCommand {
    let order = Endian::NATIVE;
    let mut bytes = MasterCommand::Other(number.into(), 0).encode(order);
    // Some commands have no value.
    bytes[68..].copy_from_slice(&[0; MasterCommand::LEN - 68]);
    MasterCommand::decode(&bytes, order).unwrap_or(MasterCommand::Error)
}

/// Returns the name and the fields of a command.
fn command_record(command: MasterCommand) -> (&'static str, &'static [&'static str]) {
    match command {
        MasterCommand::NextTransaction(_) => ("NextTransaction", &["number"]),
        MasterCommand::Abort => ("Abort", &[]),
        MasterCommand::SendStatistics => ("SendStatistics", &[]),
        MasterCommand::Error => ("Error", &[]),
        MasterCommand::Other(..) => ("Other", &["number", "value"]),
    }
}

/// Returns all pairs of a record and a field.
fn pairs(records: &[&str], fields: &[&str]) -> Vec<Field> {
    let record_pairs = |record: &&str| {
        let record = (*record).to_owned();
        let fields = fields.iter().map(|field| (*field).to_owned());
        fields
            .map(|field| (record.clone(), field))
            .collect::<Vec<_>>()
    };
    records.iter().flat_map(record_pairs).collect()
}

/// Returns the fields in the rows of the tables. A row may name several records and several fields.
fn documented_fields(tables: &[Table]) -> Vec<Field> {
    let tables = tables.iter().filter(|table| table.head[1] == "field");
    let rows = tables.flat_map(|table| &table.rows);
    rows.flat_map(|row| pairs(&code_words(&row[0]), &code_words(&row[1])))
        .collect()
}

/// Returns the words between backticks of a cell.
fn code_words(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

fn page() -> Vec<Table> {
    tables("src/requests.md")
}

fn each_field_has_one_row() {
    let errors = differences(&declared_fields(), &documented_fields(&page()));
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

fn differences(fields: &BTreeSet<Field>, rows: &[Field]) -> Vec<String> {
    let mut missing = fields.clone();
    let mut errors = Vec::new();
    for row in rows {
        if !missing.remove(row) {
            let error = if fields.contains(row) {
                "has two rows"
            } else {
                "has a row, but is not a field"
            };
            errors.push(format!("{} of {} {error}", row.1, row.0));
        }
    }
    let missing = missing.iter();
    errors.extend(missing.map(|(record, field)| format!("{field} of {record} has no row")));
    errors
}

/// The first table lists the requests of each record.
fn lists_requests_of_each_record() {
    let page = page();
    let table = page.iter().find(|table| table.head[0] == "record");
    let rows = &table.expect("a table of the records").rows;
    let documented: BTreeMap<&str, BTreeSet<&str>> = rows
        .iter()
        .map(|row| {
            let record = code_words(&row[0]).first().copied().unwrap_or_default();
            (record, code_words(&row[1]).into_iter().collect())
        })
        .collect();
    let messages = Request::messages();
    let mut declared: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (request, record, _) in &messages {
        declared.entry(record).or_default().insert(request);
    }
    for number in 0..=u8::MAX {
        let (name, fields) = command_record(command(number));
        if fields.is_empty() {
            declared.entry("").or_default().insert(name);
        }
    }
    assert_eq!(documented, declared);
}

fn each_bound_names_existing_tests(names: &[String]) -> Result<(), String> {
    let page = page();
    let bounds = page
        .iter()
        .filter(|table| table.head.last().is_some_and(|head| head == "case"));
    let mut errors = Vec::new();
    let mut count = 0;
    for row in bounds.flat_map(|table| &table.rows) {
        let cases = code_words(&row[row.len() - 1]);
        count += cases.len();
        if cases.is_empty() {
            errors.push(format!("{} of {}: no test", row[1], row[0]));
        }
        for case in cases {
            if !exists(case, names) {
                errors.push(format!(
                    "{} of {}: test {case} does not exist",
                    row[1], row[0]
                ));
            }
        }
    }
    assert!(count > 0, "the page contains no bounds");
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors.join("\n"))
    }
}

/// Returns whether this test or group exists in this program, of which `names` are all tests, or
/// elsewhere.
pub(crate) fn exists(case: &str, names: &[String]) -> bool {
    names.iter().any(|name| has_name_or_group(name, case)) || exists_elsewhere(case)
}

/// Returns whether this test exists in a file of a crate, or in a suite of the virtual machine.
fn exists_elsewhere(case: &str) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let contains =
        |path: &Path, code: &str| fs::read_to_string(path).is_ok_and(|text| text.contains(code));
    if let Some((suite, name)) = case.split_once('.') {
        let path = root.join(format!("lab/suite/{suite}.sh"));
        return contains(&path, &format!("\n{name}() {{"));
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
        return crates
            .any(|krate| contains(&krate.path().join(format!("tests/{suite}.rs")), &test));
    };
    let module = module.replace("::", "/");
    let test = format!("{attribute}\n    fn {name}() {{");
    crates.any(|krate| {
        let source = krate.path().join("src").join(&module);
        contains(&source.with_extension("rs"), &test) || contains(&source.join("mod.rs"), &test)
    })
}

fn reports_missing_and_unknown_rows() {
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
                "z of A has a row, but is not a field",
                "z of B has a row, but is not a field",
            ],
        ),
        (
            pairs(&["A", "B", "A"], &["x", "y"]),
            &["x of A has two rows", "y of A has two rows"],
        ),
    ] {
        assert_eq!(differences(&fields, &rows), expected);
    }
    assert_eq!(code_words("`A`, `B<C>` and more"), ["A", "B<C>"]);
}

fn finds_tests_outside_this_program() {
    for (case, expected) in [
        ("wire::work::tests::work_above_the_limits_is_refused", true),
        ("wire::work::tests::work_above_the_limits_is_refuse", false),
        ("wire::work::tests::receive", false),
        (
            "wire::works::tests::work_above_the_limits_is_refused",
            false,
        ),
        ("exchange::stock_requests_are_answered_within_bounds", true),
        ("exchange::stock_requests", false),
        ("modules.interfaces", true),
        ("modules.interface", false),
        ("work_above_the_limits_is_refused", false),
    ] {
        assert_eq!(exists_elsewhere(case), expected, "{case}");
    }
}
