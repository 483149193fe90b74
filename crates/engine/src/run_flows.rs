//! The flows of one test: a thread for each, one start, and samples of all of them meanwhile.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::Builder;
use std::time::{Duration, Instant};

use model::{CpuUse, Ended, FlowPlan, Half, Limit, Refused, Sample, Series, Side};
use sys::call;

use crate::buffers::Buffers;
use crate::counters::Counters;
use crate::finish::Finish;
use crate::flow_group::{FlowGroup, GroupMember};
use crate::flow_sampler::{FlowSampler, GroupTimes, IntervalEnd, SampledFlow};
use crate::io::Flow;
use crate::measured_phase::{MeasuredPhase, PhaseSettings};
use crate::numbers::FirstDatagram;
use crate::run::{Loop, receive_late};
use crate::socket::DataSocket;
use crate::stop::{Reason, Stop};

/// A flow's stack. Its buffers are on the heap.
const STACK: usize = 256 * 1024;

/// The longest wait for an event.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// One flow, ready to move data.
#[derive(Debug)]
pub struct FlowToRun<'a> {
    /// What this end does: its workload, its limit, and `here`.
    pub plan: &'a FlowPlan,
    /// The data socket, connected, or bound if it only receives.
    pub data: &'a DataSocket,
    /// What it sends from and receives into.
    pub buffers: &'a mut Buffers,
    /// Where it counts.
    pub counters: Arc<Counters>,
    /// How it ends for the peer; `None` leaves its end to the caller.
    pub finish: Option<Finish>,
    /// Numbered datagrams that came before; empty of other flows.
    pub first: Vec<FirstDatagram>,
}

impl<'a> FlowToRun<'a> {
    fn sampled(&self) -> SampledFlow<'a> {
        SampledFlow::of(Arc::clone(&self.counters), self.data.socket.as_fd())
    }
}

/// What flows that run together have in common.
#[derive(Clone, Copy, Debug)]
pub struct GroupSettings<'a> {
    /// Ends all of them early.
    pub cancel: &'a Stop,
    /// The control connection, if the caller reads from it meanwhile.
    pub control: Option<BorrowedFd<'a>>,
    /// When they are looked at, and what ends all of them.
    pub times: GroupTimes,
    /// How long nothing may be counted in a flow.
    pub idle: Option<Duration>,
    /// How long the peer may take to read the rest, where a flow has a [`Finish`].
    pub patience: Duration,
    /// Receivers go on until this is pulled, without counting it as received in time. It is pulled after
    /// [`FlowWatch::on_measured`].
    pub drained: Option<&'a Stop>,
    /// Says whether to measure the host's CPU time, and how.
    pub here: &'a Half,
}

/// What the caller does while flows run, on its own thread.
pub trait FlowWatch {
    /// An interval has ended; the last one ends with the flows, and may be short.
    fn on_interval(&mut self, _: &IntervalEnd<'_>) {}
    /// The control connection has input, or has ended. Whether there is more to come.
    fn on_control(&mut self) -> bool {
        false
    }
    /// A flow has failed, for this reason.
    fn on_failed(&mut self, _flow: usize, _why: &Ended) {}
    /// All flows have ended, or only receive what is late.
    fn on_measured(&mut self) {}
}

impl FlowWatch for () {}

/// What became of flows that ran together.
#[derive(Debug)]
pub struct GroupEnd {
    /// Each flow, in order.
    pub flows: Vec<FlowEnd>,
    /// When the first one began.
    pub begun: Instant,
    /// The host's CPU time from the end of the warm-up to the end of the last flow, if it was asked for.
    pub cpu: Option<CpuUse>,
}

/// What became of one flow.
#[derive(Debug)]
pub struct FlowEnd {
    /// This end's figures, without the warm-up. Times of calls and the thread's CPU time, which are not known of a part,
    /// are not there if there was one.
    pub side: Side,
    /// Why it ended.
    pub ended: Ended,
    /// The failed call and its error number, if one failed.
    pub failure: Option<(&'static str, i32)>,
    /// When it began.
    pub started: Instant,
    /// What it had moved at times, since the start of all and with the warm-up.
    pub series: Series,
    /// The same at the end of the warm-up.
    pub warm_up: Sample,
}

/// What a flow's thread reports.
enum News {
    Started(Instant),
    /// Its measured part is over.
    Measured(usize, Box<Measured>),
    /// The thread ends.
    Gone(usize),
}

struct Measured {
    side: Side,
    ended: Ended,
    failure: Option<(&'static str, i32)>,
    started: Instant,
}

/// Reports what happens to a flow, and in the end that its thread has gone.
struct Reporter<'a> {
    number: usize,
    news: Sender<News>,
    waker: &'a UnixStream,
}

impl Reporter<'_> {
    fn report(&self, news: News) {
        // A receiver that has gone needs no news.
        let _ = self.news.send(news);
        let mut waker = self.waker;
        let _ = waker.write(&[0]);
    }
}

impl Drop for Reporter<'_> {
    fn drop(&mut self) {
        self.report(News::Gone(self.number));
    }
}

/// Runs flows to their end. They start together, each on a thread of its own; the calling thread samples them and serves
/// `watch`. Fails if there is no thread for one of them.
pub fn run_flows(
    flows: Vec<FlowToRun<'_>>,
    settings: &GroupSettings<'_>,
    watch: &mut dyn FlowWatch,
) -> io::Result<GroupEnd> {
    let group = FlowGroup::new(flows.len(), settings.here.clone());
    let members: Vec<_> = flows.iter().map(|_| group.member()).collect();
    let (woken, waker) = UnixStream::pair()?;
    woken.set_nonblocking(true)?;
    let stop = settings.cancel.follower();
    let samples: Vec<_> = flows.iter().map(FlowToRun::sampled).collect();
    let (news, events) = mpsc::channel();
    std::thread::scope(|scope| {
        for ((number, flow), member) in flows.into_iter().enumerate().zip(members) {
            let reporter = Reporter {
                number,
                news: news.clone(),
                waker: &waker,
            };
            let (stop, thread) = (&stop, Builder::new().name("flow".to_owned()));
            let spawned = thread.stack_size(STACK).spawn_scoped(scope, move || {
                run_one(flow, settings, member, stop, &reporter);
            });
            // The others do not start without it.
            spawned?;
        }
        let mut running = RunningFlows {
            settings,
            group: &group,
            stop: &stop,
            events,
            woken,
            ends: samples.iter().map(|_| None).collect(),
            is_enough: false,
        };
        Ok(running.watch(samples, watch))
    })
}

/// One flow, on its thread.
fn run_one(
    flow: FlowToRun<'_>,
    settings: &GroupSettings<'_>,
    member: GroupMember<'_>,
    cancel: &Stop,
    reporter: &Reporter<'_>,
) {
    let FlowToRun {
        plan,
        data,
        buffers,
        counters,
        finish,
        first,
    } = flow;
    let refused = plan.here.cpu.and_then(bind);
    let Some(group) = member.start() else {
        return;
    };
    let limit = match (plan.limit, settings.times.time) {
        (Limit::Unlimited, Some(time)) => Limit::Time(time),
        (limit, _) => limit,
    };
    let time = match limit {
        Limit::Time(time) => Some(time),
        _ => settings.times.time,
    };
    let phase = PhaseSettings {
        counters: &counters,
        cancel,
        control: None,
        time: time.map(|time| settings.times.warm_up + time),
        idle: settings.idle,
        group: Some(group),
    };
    // The group measures the host's CPU time.
    let mut phase = MeasuredPhase::start(&Half::default(), phase);
    reporter.report(News::Started(phase.started()));
    let path = || Flow::Connected(data.socket.as_fd());
    let body = Loop {
        first: &first,
        warm_up: settings.times.warm_up,
        ..Loop::of(plan, buffers)
    };
    let ran = phase.run(limit, body, path());
    if let Some(finish) = finish {
        // What has arrived after a reset is for the peer to say.
        let _ = phase.finish(finish, &path(), settings.patience);
    }
    let (ended, failure) = (ran.ended.clone(), ran.failure);
    let facts = data.facts_at_end(&data.socket);
    let mut side = phase.side(ran, data, buffers, facts);
    side.refused.extend(refused);
    let drains = plan.workload.receives() && !matches!(ended, Ended::Failed(_));
    let measured = Measured {
        side,
        ended,
        failure,
        started: phase.started(),
    };
    reporter.report(News::Measured(reporter.number, Box::new(measured)));
    if let Some(drained) = settings.drained.filter(|_| drains) {
        receive_late(data.socket.as_fd(), buffers, drained, &counters);
    }
}

fn bind(cpu: u32) -> Option<Refused> {
    let error = sys::cpu::bind_thread(cpu).err()?;
    Some(Refused {
        setting: "CPU".to_owned(),
        asked: cpu.to_string(),
        why: sys::describe(&error),
    })
}

/// The flows as the calling thread sees them.
struct RunningFlows<'a> {
    settings: &'a GroupSettings<'a>,
    group: &'a FlowGroup,
    stop: &'a Stop,
    events: Receiver<News>,
    woken: UnixStream,
    ends: Vec<Option<Measured>>,
    /// They have moved what they should together.
    is_enough: bool,
}

impl RunningFlows<'_> {
    fn watch(&mut self, mut flows: Vec<SampledFlow<'_>>, watch: &mut dyn FlowWatch) -> GroupEnd {
        let begun = self.begun(watch);
        for flow in &mut flows {
            flow.base.at = begun;
        }
        let mut sampler = FlowSampler::new(flows, self.settings.times, begun);
        let mut control = self.settings.control;
        while self.ends.iter().any(Option::is_none) {
            self.wait(&mut control, sampler.due(), watch);
            let was_warm = sampler.is_warm();
            sampler.look(|interval| watch.on_interval(interval));
            if sampler.is_warm() && !was_warm {
                self.group.restart_cpu();
            }
            if !self.is_enough && sampler.is_enough() {
                self.is_enough = true;
                self.stop.pull(Reason::Deadline);
            }
        }
        let ends: Vec<Measured> = self.ends.iter_mut().filter_map(Option::take).collect();
        let last = |end: &Measured| {
            let elapsed = end.side.elapsed.unwrap_or_default();
            (end.side.counts, end.started + elapsed)
        };
        let last: Vec<_> = ends.iter().map(last).collect();
        sampler.end(&last, |interval| watch.on_interval(interval));
        watch.on_measured();
        if let Some(drained) = self.settings.drained {
            drained.pull(Reason::Deadline);
        }
        let ends = ends.into_iter().zip(sampler.flows);
        GroupEnd {
            flows: ends
                .map(|(end, sampled)| self.end(end, sampled, begun))
                .collect(),
            begun,
            cpu: self.group.cpu(),
        }
    }

    /// Waits until each flow has begun, or never will; returns when the first one did.
    fn begun(&mut self, watch: &mut dyn FlowWatch) -> Instant {
        let mut begun = None;
        let mut waiting = self.ends.len();
        while waiting > 0
            && let Ok(news) = self.events.recv()
        {
            match news {
                News::Started(at) => {
                    begun = Some(begun.map_or(at, |first: Instant| first.min(at)));
                    waiting -= 1;
                }
                News::Gone(number) if self.ends[number].is_none() => {
                    waiting -= 1;
                    self.note(News::Gone(number), watch);
                }
                news => self.note(news, watch),
            }
        }
        begun.unwrap_or_else(Instant::now)
    }

    fn note(&mut self, news: News, watch: &mut dyn FlowWatch) {
        let (number, end) = match news {
            News::Measured(number, end) => (number, *end),
            News::Gone(number) if self.ends[number].is_none() => (number, Measured::broken_off()),
            _ => return,
        };
        if let Ended::Failed(_) = end.ended {
            watch.on_failed(number, &end.ended);
        }
        self.ends[number] = Some(end);
    }

    /// Waits until `due`, and serves what comes before.
    fn wait(
        &mut self,
        control: &mut Option<BorrowedFd<'_>>,
        due: Option<Instant>,
        watch: &mut dyn FlowWatch,
    ) {
        let left = due.map_or(LONGEST_WAIT, |due| {
            due.saturating_duration_since(Instant::now())
        });
        let mut sockets = vec![self.woken.as_fd()];
        sockets.extend(*control);
        match call::wait_any_readable(&sockets, left) {
            Ok(Some(0)) => {
                let _ = self.woken.read(&mut [0; 64]);
            }
            Ok(Some(_)) if !watch.on_control() => *control = None,
            _ => {}
        }
        while let Ok(news) = self.events.try_recv() {
            self.note(news, watch);
        }
    }

    /// A flow's figures, without the warm-up.
    fn end(&self, end: Measured, sampled: SampledFlow<'_>, begun: Instant) -> FlowEnd {
        let mut side = end.side;
        side.datagrams = sampled.datagrams();
        let base = sampled.base;
        let before = base.at.saturating_duration_since(end.started);
        side.counts = side.counts.since(&base.counts);
        let path = base.sample.path.as_ref();
        let retransmits = path.and_then(|path| path.retransmits).unwrap_or(0);
        let socket = &mut side.socket;
        socket.retransmits = (socket.retransmits).map(|all| all.saturating_sub(retransmits as u32));
        socket.dropped = (socket.dropped).map(|all| all.saturating_sub(base.dropped));
        if !self.settings.times.warm_up.is_zero() {
            side.elapsed = side.elapsed.map(|all| all.saturating_sub(before));
            (side.latency, side.send_times, side.receive_times) = (None, None, None);
            side.thread_cpu = None;
        }
        side.smoothed_rtt = Some(sampled.rtt).filter(|rtt| !rtt.is_empty());
        FlowEnd {
            side,
            ended: match end.ended {
                Ended::Deadline if self.is_enough => Ended::Count,
                ended => ended,
            },
            failure: end.failure,
            started: end.started,
            series: Series {
                name: String::new(),
                begun: end.started.saturating_duration_since(begun),
                samples: sampled.samples,
            },
            warm_up: base.sample,
        }
    }
}

impl Measured {
    fn broken_off() -> Self {
        Self {
            side: Side::default(),
            ended: Ended::Failed("a flow's thread broke off".to_owned()),
            failure: None,
            started: Instant::now(),
        }
    }
}
