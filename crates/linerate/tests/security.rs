//! Checks that each statement of SECURITY.md has a test.

use std::fs;
use std::path::Path;

use testkit::{TestCase, test_case_unless};

use crate::requests::exists;

/// `names` are the full names of all test cases of this program.
pub(crate) fn test_cases(names: Vec<String>) -> Vec<TestCase> {
    let check = move || each_statement_has_a_test(&names);
    vec![test_case_unless(None, "each_statement_has_a_test", check)]
}

/// Beginnings of statements, and the tests of each. Advice and descriptions have none.
const STATEMENTS: &[(&str, &[&str])] = &[
    // Exposure
    ("linerate measures networks", &[]),
    ("Its servers send and receive", &[]),
    ("Start a server only", &[]),
    (
        "`netserver` | TCP 12865",
        &[
            "robust::options::listens_on_selected_addresses",
            "robust::deadlines::requires_passphrase",
        ],
    ),
    (
        "`uperf -s` | TCP 20000",
        &["hosts::addresses", "uperf.vsock"],
    ),
    (
        "`iperf -s` | TCP 5001",
        &[
            "iperf::stock_tcp",
            "iperf::stock_udp",
            "iperf::stock_tcp_permit_key",
        ],
    ),
    (
        "`iperf3 -s` | TCP 5201",
        &["iperf3::accepts_only_valid_logins"],
    ),
    (
        "`iperf3 -s` | UDP 5201",
        &["iperfs::reverse_test_sends_only_to_client"],
    ),
    (
        "`udpmon_resp` | UDP 14233",
        &["exchange::stock_requests_are_answered_within_bounds"],
    ),
    (
        "`udpmon_recv` | UDP 14233",
        &["exchange::a_receiver_counts_sent_datagrams"],
    ),
    (
        "`linerate serve` | ports above",
        &[
            "serve::serves_five_dialects_at_once",
            "serving::requires_secrets",
        ],
    ),
    (
        "a running test | data ports",
        &["robust::fields::refuses_ports"],
    ),
    (
        "With `--allow-peers`, a server",
        &["robust::bounds::refuses_clients_of_other_networks"],
    ),
    ("`udpmon_recv` does not have", &[]),
    ("`--auth` applies only", &["serving::requires_secrets"]),
    (
        "The Unix socket of",
        &["serving::status_reports_running_tests"],
    ),
    (
        "Data ports are open only",
        &["robust::death::detects_dead_client_in_each_phase"],
    ),
    ("Clients (`netperf`", &[]),
    ("They listen only while", &["hosts::lost::MasterKilled"]),
    (
        "linerate has no updates",
        &["documents::pages_load_nothing"],
    ),
    ("As in the original tools, the protocols", &[]),
    ("Their own means are weak", &[]),
    (
        "The passphrase of `-Z`",
        &[
            "robust::deadlines::requires_passphrase",
            "iperf::stock_tcp_permit_key",
        ],
    ),
    (
        "iperf3 encrypts its login",
        &[
            "iperf3::accepts_only_valid_logins",
            "login::tests::tokens_need_a_known_user_and_a_current_time_and_work_once",
        ],
    ),
    (
        "iperf 2 and iperf3 cannot prove",
        &[
            "iperfs::reverse_test_sends_only_to_client",
            "iperfs::iperf3::ignores_streams_with_wrong_cookie",
        ],
    ),
    (
        "A UDP stream without a cookie",
        &["datagram_acceptor::tests::a_silent_session_holds_its_turn_for_a_bounded_time"],
    ),
    (
        "If several do, the server logs",
        &["iperfs::iperf3::reports_stream_that_could_belong_to_several_tests"],
    ),
    (
        "uperf's `protocol=ssl`",
        &["tls::cipher_suites::tests::methods_select_tls_versions"],
    ),
    ("They prevent mistakes", &[]),
    (
        "A login is valid for one test",
        &["login::tests::tokens_need_a_known_user_and_a_current_time_and_work_once"],
    ),
    ("The control connection stays in clear text", &[]),
    ("Use a VPN", &[]),
    // What a server does not do for a client
    ("Without an option that allows it", &[]),
    (
        "sends nothing to a third party",
        &[
            "robust::hostile::refuses_third_party_destination",
            "hosts::strangers",
        ],
    ),
    (
        "opens no file",
        &[
            "robust::hostile::refuses_unpermitted_fill_files",
            "robust::files::refuses_file_replaced_by_link",
            "robust::files::refuses_fifo_and_device",
        ],
    ),
    (
        "loads no kernel module",
        &[
            "robust::privileges::refuses_unloaded_protocol",
            "robust::privileges::refuses_privileged_ports",
            "iperfs::iperf3::server_loads_no_protocol_module",
        ],
    ),
    (
        "spins on no CPU",
        &[
            "robust::bounds::limits_spinning",
            "interop::looper::requires_permission",
        ],
    ),
    (
        "A server accepts a data connection from another address",
        &["robust::peers::accepts_another_address_after_wait"],
    ),
    (
        "`--strict-peers` refuses",
        &["robust::peers::strict_peers_refuses_another_address"],
    ),
    (
        "It accepts one without a wait",
        &["robust::peers::accepts_data_over_second_network"],
    ),
    (
        "Between two linerates, a nonce",
        &["data_acceptor::tests::a_nonce_decides_regardless_of_order"],
    ),
    (
        "linerate escapes text",
        &[
            "hosts::peer_text::refuses_and_escapes_text_of_master",
            "iperfs::iperf3::server_bounds_unusable_parameters",
        ],
    ),
    // Default limits
    (
        "control connections | `--max-clients` 1024",
        &[
            "robust::bounds::limits_sessions_per_address",
            "hosts::bounds::limits_masters_per_address",
        ],
    ),
    (
        "memory | `--max-memory` 1 GiB; `--max-buffer`",
        &[
            "robust::options::limits_memory",
            "hosts::limits::refuses_excess_memory",
        ],
    ),
    (
        "descriptors | one data socket",
        &["hosts::bounds::limits_connections_per_master"],
    ),
    (
        "threads and processes | one per client",
        &["hosts::limits::refuses_excess_strands_of_all_masters"],
    ),
    (
        "length of a test | `--max-length` 7 days",
        &[
            "robust::fields::refuses_too_long_tests",
            "hosts::limits::refuses_long_runs",
        ],
    ),
    (
        "silence before a test | `--control-idle`",
        &["robust::deadlines::closes_silent_control_connection"],
    ),
    (
        "silence of the data | `--data-wait`",
        &[
            "robust::deadlines::ends_test_without_data",
            "robust::deadlines::ends_test_whose_data_stops",
            "robust::death::releases_threads_behind_closed_windows",
        ],
    ),
    (
        "Each failed login delays the next attempts from that address.",
        &["login_attempts::tests::simultaneous_attempts_of_one_address_wait"],
    ),
    (
        "Before the login, the server answers nothing else about the request.",
        &["iperf3::accepts_only_valid_logins"],
    ),
    (
        "wrong passphrases | each delays",
        &["robust::bounds::delays_wrong_passphrases"],
    ),
    (
        "clients | `--max-clients` 1024 connections",
        &[
            "service::tests::one_address_leaves_slots_to_others",
            "iperf3::refuses_second_test_at_limit_of_one",
        ],
    ),
    (
        "streams | – | 128",
        &["iperf3::serves_beside_silent_and_invalid_clients"],
    ),
    (
        "memory | 1 GiB; 16 MiB per buffer | 1 GiB",
        &[
            "iperfs::iperf::server_charges_buffers_before_they_exist",
            "iperfs::iperf::survives_extreme_tcp_headers",
            "memory::tests::a_ring_and_all_rings_have_limits",
        ],
    ),
    (
        "length of a test | until the client's",
        &[
            "iperfs::iperf::server_releases_disconnected_clients",
            "effects::iperfs::iperf3::--server-max-duration_1_-t_5",
        ],
    ),
    (
        "datagrams that the server sends | 1 h",
        &["iperfs::iperf::survives_extreme_udp_headers"],
    ),
    (
        "silence before a test | 20 s",
        &[
            "iperfs::iperf::server_releases_silent_clients",
            "iperfs::iperf3::server_releases_silent_clients",
        ],
    ),
    (
        "turn to open UDP streams without a cookie",
        &["iperfs::iperf3::silent_clients_do_not_hold_up_others"],
    ),
    (
        "silence of the data, or no acknowledgement | 60 s; datagrams 70 s",
        &[
            "iperfs::iperf::udp_server_releases_silent_clients",
            "iperfs::iperf3::server_releases_silent_clients",
        ],
    ),
    (
        "`linerate serve` has the limits of each",
        &["serve::survives_hostile_bytes_at_every_port"],
    ),
    (
        "It also limits all dialects together",
        &["service::tests::one_address_leaves_slots_to_others"],
    ),
    (
        "Limits per address are optional",
        &["serving::enforces_limits_per_address"],
    ),
    (
        "Only its user can open",
        &["serving::status_reports_running_tests"],
    ),
    (
        "A UDPmon responder stores nothing",
        &["third_parties::udpmon_responder"],
    ),
    ("Its limits are", &[]),
    (
        "tests at a time | `--max-tests` 1",
        &["exchange::stock_requests_are_answered_within_bounds"],
    ),
    (
        "records | `--max-records`",
        &["exchange::stock_requests_are_answered_within_bounds"],
    ),
    (
        "test without datagrams | `--idle`",
        &["exchange::reports_why_the_responder_ended_a_test"],
    ),
    (
        "answer during a test | `--max-response`",
        &["exchange::responses_have_the_requested_length"],
    ),
    (
        "One address gets at most 15/16",
        &["service::tests::one_address_leaves_slots_to_others"],
    ),
    (
        "In IPv6, an address is a /64",
        &["service::tests::one_address_leaves_slots_to_others"],
    ),
    (
        "All servers of a process also share",
        &["budget::tests::a_part_is_charged_to_the_whole"],
    ),
    (
        "A server derives it at its start",
        &["resources::tests::limits_set_the_budgets"],
    ),
    (
        "It charges sessions",
        &["resources::tests::a_thread_is_charged_until_it_ends"],
    ),
    (
        "`linerate serve` logs the budget",
        &["serve::leaves_threads_to_other_addresses"],
    ),
    (
        "New clients of all addresses take turns",
        &["arrivals::tests::addresses_take_turns"],
    ),
    ("The [list of requests]", &[]),
    ("CPU time has no limit per address", &[]),
    (
        "A TCP session of an address that has more than 256 threads waits",
        &["thread_order::tests::an_address_with_many_threads_has_long_slices"],
    ),
    ("This needs Linux 6.12", &[]),
    ("On older kernels, such an address can delay", &[]),
    ("An address with thousands of threads can reduce", &[]),
    (
        "`--allow-peers` keeps unknown addresses out",
        &["service::tests::one_address_leaves_slots_to_others"],
    ),
    ("Bandwidth has no default limit", &[]),
    ("Every client that may connect", &[]),
    (
        "`linerate serve --max-rate` ends",
        &["serving::enforces_limits_per_address"],
    ),
    (
        "`linerate serve` writes at most 1,000 log lines",
        &["serving::log_has_a_rate"],
    ),
    ("It counts the rest.", &["serving::log_has_a_rate"]),
    (
        "The other servers write at most 100 lines",
        &[
            "robust::bounds::limits_log_lines",
            "robust::bounds::limits_errors_of_other_servers",
        ],
    ),
    // Forged addresses
    ("The source address of a UDP datagram can be forged", &[]),
    (
        "Each server sends at most three times",
        &["third_parties::serve"],
    ),
    (
        "A TCP handshake or a nonce",
        &["third_parties::proven_addresses_get_data"],
    ),
    (
        "`iperf -s -u` and `udpmon_resp` have this rule",
        &[
            "third_parties::iperf_server",
            "third_parties::udpmon_responder",
            "third_parties::servers_with_control_connections",
        ],
    ),
    (
        "Exempt are addresses of this host",
        &["third_party::tests::only_broadcast_links_have_neighbours"],
    ),
    ("So this remains possible", &["third_parties::iperf_server"]),
    (
        "An iperf 2 flow ends if the address answers",
        &["iperf::ends_a_reverse_udp_test_if_the_port_is_closed"],
    ),
    ("If your network lets", &[]),
    (
        "A single forged datagram takes no slot",
        &["datagram_acceptor::tests::a_flow_may_have_to_send_a_second_datagram"],
    ),
    (
        "In `linerate serve`, the UDP clients",
        &[
            "service::tests::unproven_clients_have_slots_of_their_own",
            "service::tests::each_unproven_client_can_begin_its_test",
            "serve::unproven_flows_leave_descriptors_to_others",
        ],
    ),
    (
        "In these servers, a quarter of the slots of unproven UDP flows",
        &["service::tests::unproven_clients_have_slots_of_their_own"],
    ),
    (
        "A burst of forged datagrams gets none",
        &[
            "datagram_acceptor::tests::a_flood_of_sources_keeps_those_that_send_on",
            "iperfs::silent_flows_yield_to_others",
        ],
    ),
    (
        "If even these slots are taken",
        &[
            "registry::tests::the_most_silent_unproven_test_yields",
            "iperfs::silent_flows_yield_to_others",
        ],
    ),
    ("A flood of forged flows that send on", &[]),
    (
        "No unproven request ends",
        &["server::tests::a_proven_session_yields_to_its_own_proven_host_only"],
    ),
    // Privileges
    (
        "A server needs no privileges",
        &["packaging::systemd_units"],
    ),
    (
        "If you start it as root, use `--user NAME`",
        &[
            "robust::privileges::changes_user",
            "serving::runs_as_another_user",
        ],
    ),
    ("This is not the default", &[]),
    ("The systemd units in", &["packaging::systemd_units"]),
];

fn each_statement_has_a_test(names: &[String]) -> Result<(), String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../SECURITY.md");
    let text = fs::read_to_string(path).expect("SECURITY.md is readable");
    let statements = statements(&text);
    let mut errors = Vec::new();
    for statement in &statements {
        if !STATEMENTS
            .iter()
            .any(|(start, _)| statement.starts_with(start))
        {
            errors.push(format!("no entry in tests/security.rs for: {statement}"));
        }
    }
    for (start, cases) in STATEMENTS {
        if !statements
            .iter()
            .any(|statement| statement.starts_with(start))
        {
            errors.push(format!("SECURITY.md does not state: {start}"));
        }
        let missing = cases.iter().filter(|case| !exists(case, names));
        errors.extend(missing.map(|case| format!("{start}: test {case} does not exist")));
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors.join("\n"))
    }
}

/// Returns the rows of tables, the items of lists and the sentences of paragraphs, up to the section
/// about reports.
fn statements(text: &str) -> Vec<String> {
    let (text, _) = text.split_once("\n## Reporting").expect("a last section");
    let mut statements = Vec::new();
    for block in text.split("\n\n").filter(|block| !block.starts_with('#')) {
        if block.starts_with("| ") {
            let rows = block.lines().skip(2);
            statements.extend(rows.map(|row| row.trim_matches(['|', ' ']).to_owned()));
            continue;
        }
        for item in format!("\n{block}").split("\n- ") {
            let words: Vec<&str> = item.split_whitespace().collect();
            let sentences = words.join(" ").replace(". ", ".\n");
            let lines = sentences.lines().filter(|line| !line.is_empty());
            statements.extend(lines.map(str::to_owned));
        }
    }
    statements
}
