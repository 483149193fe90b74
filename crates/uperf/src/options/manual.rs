//! What `uperf.1` says of each option. [`super::table`] says what the options are; tests see to it that
//! none is missing here, or here alone, and that the defaults told are those in force. It stands apart
//! because a program that makes no man pages does not carry its text.

use getopt::Name::{Letter, Long};
pub use getopt::manual::{Chapter, Described};
use getopt::manual::{Paragraph, chapter};

use super::table::SECTION;

/// The chapters of `uperf.1`.
pub fn chapters() -> Vec<Chapter> {
    vec![chapter("OPTIONS", &SECTION, OPTIONS)]
}

#[rustfmt::skip]
const OPTIONS: &[Paragraph] = &[
    (Letter('m'), "-m profile", "Be the master, and run this profile. Of several the last one counts."),
    (Letter('s'), "-s", "Be a slave: take part in the profiles of whatever master connects, until a signal."),
    (Letter('S'), "-S protocol", "What the control connection goes over, the same at both ends: tcp, sctp or vsock. Default tcp."),
    (Letter('n'), "-n", "No statistics: no progress, no report, and no exchange of totals at the end. It forgets -R and the sections that were asked for before it; those that come after it are printed."),
    (Letter('T'), "-T", "A line for each strand."),
    (Letter('t'), "-t", "For each transaction how often it was executed, and how long that took: mean, CPU time, longest and shortest."),
    (Letter('f'), "-f", "The same for each flowop."),
    (Letter('g'), "-g", "A line for each group."),
    (Letter('k'), "-k", "What the network interfaces carried meanwhile. It is printed anyway; after -n it is asked for by this."),
    (Letter('p'), "-p", "Measure the CPU time of each flowop, which costs a system call before and after it. Prints what -f does."),
    (Letter('e'), "-e", "Count cycles, instructions, task-clock and context-switches of each flowop. Prints what -f does, too."),
    (Letter('E'), "-E counter,...", "Count these, by the names that perf(1) has for them, in the strands of the master. They are read by a system call after each flowop, a part of which is in each count. What the machine has not or does not allow is said, and is no number."),
    (Letter('a'), "-a", "All sections: -f, -t, -g and -T. After -n also -k and Run Statistics."),
    (Letter('X'), "-X file", "Write the time of each pass of each flowop to a file: process, thread, 0, the end (nanoseconds since 1970), and the time (nanoseconds)."),
    (Letter('i'), "-i interval", "From one progress line to the next: seconds, or a number with the suffix ms, us or ns; as in profiles a lone m is a millisecond. Default 1."),
    (Letter('P'), "-P port", "The control port. Default 20000. 20k is 20480. A slave takes any free port with 0, and says which. VSOCK has ports up to 4294967294."),
    (Letter('R'), "-R", "Lines for programs, with time stamps in milliseconds, in the place of progress, totals, groups and strands."),
    (Letter('v'), "-v", "Say what is being done."),
    (Letter('V'), "-V", "Print the version and exit."),
    (Letter('h'), "-h", "Print the usage text and exit."),
    (Letter('x'), "-x", "Refused. It asked for output for Fenxi, which uperf has not made for long; --html makes a page with plots."),
    (Letter('H'), "-H stdout", "Keep the time of each execution of the transactions with a duration, and print their mean, median and 99th percentile, in microseconds, as a fork of uperf does."),
    (Long("check"), "--check profile", "Say what this profile would run: groups, strands, transactions, flowops, hosts and memory; and what is odd about it, with line and column. Nothing is run."),
    (Long("html"), "--html file", "Write the result as one page, with plots, that needs nothing from the network. For it the times of transactions and flowops are kept, as by -t, -f and -H: a clock is read after each flowop. The file is there whole or as it was before."),
    (Long("json"), "--json", "Print the result as a JSON document in the place of all text: that of linerate run, with a member profile for groups, strands and flowops. It has the times that -t, -f, -p, -e and -H ask for; what went wrong, and -v, go to stderr. A run that does not begin has no document."),
    (Long("tls-cert"), "--tls-cert file", "PEM with the certificate of this end's SSL connections. Without it server.pem (master) or client.pem (slave) is looked for in the working directory and its parent, as stock does, and then a certificate is made, which -v says. An end that connects shows its certificate, but none that was made, to an end with --tls-verify."),
    (Long("tls-key"), "--tls-key file", "PEM with its key; without this it is in the certificate's file."),
    (Long("tls-pass-file"), "--tls-pass-file file", "A file whose first line is the pass phrase of an encrypted key. Without it the pass phrase is that of stock's files, password."),
    (Long("tls-verify"), "--tls-verify file", "PEM with authorities: the other end's certificate must be signed by one of them. That of an end that accepts connections must also be for the name or address that the profile has; of an end that connects no name is known. Without this option any certificate is taken, as by stock. A stock uperf verifies nothing, but shows its certificate at either end, so that it is verified as a linerate is."),
    (Long("strict-peers"), "--strict-peers", "Accept no data connection from another address than the control connection's. Without it the first one of a strand may come from elsewhere, as from a host with several addresses, if none has come from the control connection's address for two seconds; a warning names the address."),
    (Long("allow-third-party"), "--allow-third-party", "Answer a UDP handshake whatever address it comes from. Without it a slave answers its master's address only: anybody can send a handshake in the name of a host that then gets the test's datagrams. A master answers another address than its slave's after two seconds, with a warning."),
    (Long("allow-dir"), "--allow-dir dir", "Let masters have files below this directory sent to them; no link is followed there. No master asks for it that reads a profile, in which a slave receives what sendfile sends. Repeatable; by default there is none."),
    (Long("allow-peers"), "--allow-peers cidr", "Serve masters from this network, and no others: 10.0.0.0/8, fd00::/8, or one address. Repeatable; by default masters come from everywhere. With it nobody is served over VSOCK."),
    (Long("max-masters"), "--max-masters n", "Control connections at a time. Default 1024."),
    (Long("max-connections"), "--max-connections n", "Connections, listeners and files that one master has at a time. Default 32768. All masters together have as many as the process has descriptors (RLIMIT_NOFILE)."),
    (Long("max-strands"), "--max-strands n", "Strands of all masters together. Default 10000. Of strands, memory, descriptors and control connections masters of one address get 15/16 at most, so that others are served as well."),
    (Long("max-memory"), "--max-memory bytes", "Memory that all masters have together: their workorders, as they arrive, and their strands with stacks, buffers and connections. Socket buffers are the kernel's and not in it. Default 1g."),
    (Long("max-length"), "--max-length seconds", "The longest run, from the end of its handshake to its statistics; one whose transactions have longer durations is refused. Default 604800, seven days."),
    (Long("allow-modules"), "--allow-modules", "Let workorders load kernel modules for protocols and congestion control. Without it, the slave refuses those that are not loaded."),
    (Long("allow-privileged-ports"), "--allow-privileged-ports", "Let workorders listen on ports below 1024, or below the sysctl net.ipv4.ip_unprivileged_port_start."),
    (Long("user"), "--user name", "Change to this user, with its groups and without privileges, once the control port and the directories of --allow-dir are open. --allow-privileged-ports is refused with it. This needs root."),
    (Long("control-idle"), "--control-idle seconds", "How long to wait for a master's next word before its run begins. Default 120."),
    (Long("drain-on-exit"), "--drain-on-exit seconds", "How long runs may go on after SIGINT or SIGTERM. Masters that come then are refused. When the time is up, or at a second signal, the slave tells the masters that their runs are interrupted, and ends. Default 0."),
];

#[cfg(test)]
mod tests {
    use getopt::manual::gaps;

    use super::*;
    use crate::options::table::Typed;

    #[test]
    fn every_option_has_its_paragraph_and_no_other_has_one() {
        assert_eq!(gaps(&SECTION, OPTIONS), [""; 0]);
    }

    /// Who types a default has changed nothing; the help says the same.
    #[test]
    fn defaults_are_those_in_force() {
        let mut told_of = 0;
        for flag in SECTION.flags {
            let (name, _, text) = OPTIONS
                .iter()
                .find(|(name, ..)| *name == flag.name)
                .expect("each has one");
            let Some(default) = told_default(text) else {
                continue;
            };
            let (mut typed, untouched) = (Typed::default(), Typed::default());
            (flag.apply)(&mut typed, default).unwrap();
            assert_eq!(typed.limits, untouched.limits, "{name} {default}");
            assert_eq!(typed.master, untouched.master, "{name} {default}");
            let (port, control) = (untouched.port, untouched.control);
            assert_eq!((typed.port, typed.control), (port, control), "{name}");
            told_of += 1;
            if name.is_long() {
                let in_help = format!("({default}");
                let is_there = flag.help.iter().any(|line| line.contains(&in_help));
                assert!(is_there, "{name} {default}: {:?}", flag.help);
            }
        }
        assert_eq!(told_of, 10);
    }

    /// The word after "Default".
    fn told_default(text: &'static str) -> Option<&'static str> {
        let (_, rest) = text.split_once("Default ")?;
        let word = rest.split([' ', ',']).next()?;
        Some(word.trim_end_matches('.'))
    }
}
