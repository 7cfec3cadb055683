//! Large requests, one at a time of one owner from one address. A request is kept in memory until it is complete, so a
//! client could fill the memory by beginning many. Where the total is bounded, namespaces of Gateways take turns.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{Bytes, Service, http};
use tonic::server::NamedService;

use super::admission::ConnectionPermit;
use super::connection::ClientConnection;

const LARGE: usize = 64 << 10;
/// How long a large request may take once it has its turn: less than a waiting client has for its first request.
const TIME: Duration = Duration::from_secs(5);

#[derive(Debug, Clone)]
pub(super) struct Intake<S> {
    service: S,
    of_all: Option<Arc<Semaphore>>,
}

impl<S> Intake<S> {
    pub(super) fn new(service: S) -> Self {
        Self { service, of_all: None }
    }

    /// Takes in at most so many large requests at once, of all addresses.
    pub(super) fn at_most(self, requests: usize) -> Self {
        let of_all = Some(Arc::new(Semaphore::new(requests)));
        Self { of_all, ..self }
    }
}

impl<S: NamedService> NamedService for Intake<S> {
    const NAME: &'static str = S::NAME;
}

impl<S: Service<http::Request<Body>>> Service<http::Request<Body>> for Intake<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let place = request
            .extensions()
            .get::<ClientConnection>()
            .map(|client| Arc::clone(client.place()));
        let of_all = self.of_all.clone();
        self.service.call(match place {
            Some(place) => request.map(|body| Body::new(Requests::new(body, &place, of_all))),
            None => request,
        })
    }
}

type RequestPermits = Vec<OwnedSemaphorePermit>;
type PermitFuture = Pin<Box<dyn Future<Output = Option<RequestPermits>> + Send>>;

struct Requests {
    body: Body,
    /// What a large request needs, in this order.
    turns: Vec<Arc<Semaphore>>,
    framing: Framing,
    waiting: Option<PermitFuture>,
    held: Option<(RequestPermits, Pin<Box<Sleep>>)>,
}

impl Requests {
    fn new(body: Body, place: &ConnectionPermit, of_all: Option<Arc<Semaphore>>) -> Self {
        let mut turns = vec![place.turn()];
        // First its own ones, so that none has more than its share of the shared ones.
        turns.extend(of_all.into_iter().flat_map(|of_all| [place.turns_of_group(), of_all]));
        Self {
            body,
            turns,
            framing: Framing::default(),
            waiting: None,
            held: None,
        }
    }

    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        if self.framing.remaining < LARGE && self.held.is_none() {
            return Poll::Ready(Ok(()));
        }
        if self.held.is_none() {
            let turns = &self.turns;
            let waiting = self.waiting.get_or_insert_with(|| {
                let turns = turns.clone();
                Box::pin(async move {
                    let mut permits = RequestPermits::new();
                    for turn in turns {
                        permits.push(turn.acquire_owned().await.ok()?);
                    }
                    Some(permits)
                })
            });
            // It is never closed.
            let permits = ready!(waiting.as_mut().poll(cx));
            self.waiting = None;
            self.held = permits.map(|permits| (permits, Box::pin(sleep(TIME))));
        }
        if let Some((_, time)) = &mut self.held
            && time.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Err(Status::deadline_exceeded("a large request has not come in time")));
        }
        Poll::Ready(Ok(()))
    }
}

impl http_body::Body for Requests {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        if let Err(status) = ready!(this.poll_turn(cx)) {
            return Poll::Ready(Some(Err(status)));
        }
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
        if let Some(data) = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref())
            && this.framing.pass(data)
        {
            this.held = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Where messages of gRPC end: each has a head of one byte of flags and four of its length.
#[derive(Debug, Default)]
struct Framing {
    head: Vec<u8>,
    remaining: usize,
}

impl Framing {
    const HEAD: usize = 5;

    /// Returns whether a message ends in these bytes.
    fn pass(&mut self, mut data: &[u8]) -> bool {
        let mut ended = false;
        while !data.is_empty() {
            if self.remaining == 0 {
                let (head, rest) = data.split_at(data.len().min(Self::HEAD - self.head.len()));
                self.head.extend_from_slice(head);
                data = rest;
                let Some([_, length @ ..]) = self.head.first_chunk::<{ Self::HEAD }>() else {
                    break;
                };
                self.remaining = u32::from_be_bytes(*length).try_into().unwrap_or(usize::MAX);
                self.head.clear();
                ended |= self.remaining == 0;
            } else {
                let taken = data.len().min(self.remaining);
                data = data.split_at(taken).1;
                self.remaining -= taken;
                ended |= self.remaining == 0;
            }
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use http_body::Body as _;

    use super::super::admission::ConnectionAdmission;
    use super::super::admission::tests::peer;
    use super::super::limits::{LARGE_LOADS, REPORTS};
    use super::*;

    /// A large message that has begun and stops.
    struct LargeMessage(Option<Bytes>);

    impl http_body::Body for LargeMessage {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            let head = self.0.take().map(Frame::data);
            head.map_or(Poll::Pending, |head| Poll::Ready(Some(Ok(head))))
        }
    }

    #[tokio::test]
    async fn large_messages_of_many_gateways_in_one_namespace_held_up_those_of_another() {
        for limit in [LARGE_LOADS, REPORTS] {
            let (connections, of_all) = (ConnectionAdmission::default(), Arc::new(Semaphore::new(limit)));
            let has_its_turn = |requests: &mut Requests| {
                let mut cx = Context::from_waker(Waker::noop());
                while Pin::new(&mut *requests).poll_frame(&mut cx).is_ready() {}
                requests.held.is_some()
            };
            let begin = |number, namespace: &str| {
                let name = format!("spiffe://limpet/gateway/{namespace}/web-{number}");
                let (place, _) = connections.enter(&peer(number, &name)).unwrap();
                let head = [0, 0, 1, 0, 0].to_vec();
                let body = Body::new(LargeMessage(Some(head.into())));
                let requests = Requests::new(body, &place, Some(Arc::clone(&of_all)));
                (place, requests)
            };
            let mut greedy: Vec<_> = (0..2 * limit).map(|number| begin(number, "greedy")).collect();
            let taken = greedy
                .iter_mut()
                .filter_map(|(_, requests)| has_its_turn(requests).then_some(()));
            assert!(taken.count() < limit);
            assert!(has_its_turn(&mut begin(1, "modest").1));
        }
    }

    #[test]
    fn the_end_of_each_message_is_found_in_any_pieces() {
        let message = |length: u32| {
            let mut bytes = vec![0];
            bytes.extend(length.to_be_bytes());
            bytes.extend(vec![7; length as usize]);
            bytes
        };
        let all: Vec<u8> = [3, 0, 300, 1].into_iter().flat_map(message).collect();
        for size in 1..all.len() {
            let mut framing = Framing::default();
            let ended = all.chunks(size).filter(|piece| framing.pass(piece)).count();
            assert!((1..=4).contains(&ended), "{size}");
            assert_eq!((framing.remaining, framing.head.len()), (0, 0), "{size}");
        }
        let mut framing = Framing::default();
        assert!(!framing.pass(&message(300)[..100]));
        assert_eq!(framing.remaining, 300 + 5 - 100);
    }
}
