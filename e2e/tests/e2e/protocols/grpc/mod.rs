//! gRPC: tokens travel in metadata.

use anyhow::{Context, Result};
use futures_util::{Stream, stream};
use limpet_e2e::protocols::{EchoClient, Note};
use limpet_e2e::{Carrier, poll};
use tokio::sync::mpsc;
use tonic::metadata::MetadataMap;
use tonic::{Code, Request, Streaming};

use super::{Session, address, site, until_idle};

pub(crate) fn answered(session: &mut Session, metadata: &MetadataMap) -> Result<()> {
    session.answered(metadata.as_ref())
}

pub(crate) async fn say(client: &mut EchoClient, session: &mut Session, text: &str) -> Result<Note> {
    let answer = client.say(session.call(Note::new(text))?).await?;
    session.taken(answer)
}

/// Sends these notes over a bidirectional stream. Returns the answers.
pub(crate) async fn converse(
    client: &mut EchoClient,
    session: &mut Session,
    notes: impl Stream<Item = Note> + Send + 'static,
) -> Result<Streaming<Note>> {
    let answer = client.converse(session.call(notes)?).await?;
    session.taken(answer)
}

pub(crate) async fn next(notes: &mut Streaming<Note>) -> Result<Note> {
    let note = poll::patiently("the next note", async { Ok(notes.message().await?) }).await?;
    note.context("the stream has ended")
}

pub(crate) fn notes() -> (mpsc::Sender<Note>, impl Stream<Item = Note> + Send + 'static) {
    let (sender, receiver) = mpsc::channel(1);
    let notes = stream::unfold(receiver, async |mut receiver: mpsc::Receiver<Note>| {
        Some((receiver.recv().await?, receiver))
    });
    (sender, notes)
}

#[tokio::test]
async fn unary_calls_keep_their_session_and_their_metadata() -> Result<()> {
    let site = site().await?;
    for carrier in Carrier::ALL {
        let mut client = EchoClient::connect(address(&site, carrier)?).await?;
        let mut session = Session::new(carrier);
        for number in 0..10 {
            let text = format!("note {number}");
            let mut call = session.call(Note::new(&text))?;
            call.metadata_mut().insert("x-note", "text".parse()?);
            call.metadata_mut()
                .insert_bin("x-note-bin", tonic::metadata::MetadataValue::from_bytes(b"\0\xff"));
            let answer = client.say(call).await?;
            answered(&mut session, answer.metadata())?;
            assert_eq!(answer.metadata().get("x-note").context("no metadata")?, "text");
            let binary = answer.metadata().get_bin("x-note-bin").context("no binary metadata")?;
            assert_eq!(binary.to_bytes()?.as_ref(), b"\0\xff");
            assert_eq!(
                answer.metadata().get("x-seen").context("no metadata")?,
                "",
                "the service saw a token"
            );
            assert_eq!(
                (&*answer.get_ref().text, &*answer.get_ref().backend),
                (&*text, session.backend())
            );
        }
        assert_eq!(session.continued, 9);
    }
    Ok(())
}

#[tokio::test]
async fn a_stream_has_its_token_before_its_first_message() -> Result<()> {
    let site = site().await?;
    for carrier in Carrier::ALL {
        let mut client = EchoClient::connect(address(&site, carrier)?).await?;
        let mut session = Session::new(carrier);
        let endless = Note {
            count: u32::MAX,
            ..Note::new("again")
        };
        let answer = client.repeat(session.call(endless)?).await?;
        let mut notes = session.taken(answer)?;
        for number in 0..3 {
            say(&mut client, &mut session, "meanwhile").await?;
            let note = next(&mut notes).await?;
            assert_eq!((note.count, &*note.backend), (number, session.backend()));
        }
        let short = Note {
            count: 3,
            ..Note::new("a few")
        };
        let answer = client.repeat(session.call(short)?).await?;
        let mut notes = session.taken(answer)?;
        for _ in 0..3 {
            assert_eq!(next(&mut notes).await?.backend, session.backend());
        }
        assert_eq!(notes.message().await?, None);
        let trailers = notes.trailers().await?.context("no trailers")?;
        let names: Vec<_> = trailers.as_ref().keys().collect();
        assert_eq!(names, ["grpc-status"], "there are unexpected trailers");
    }
    Ok(())
}

#[tokio::test]
async fn a_stream_of_requests_reaches_one_backend_whole() -> Result<()> {
    let site = site().await?;
    for carrier in Carrier::ALL {
        let mut client = EchoClient::connect(address(&site, carrier)?).await?;
        let mut session = Session::new(carrier);
        for _ in 0..4 {
            let notes = stream::iter(["a", "b", "c"].map(Note::new));
            let answer = client.gather(session.call(notes)?).await?;
            let gathered = session.taken(answer)?;
            assert_eq!(
                (&*gathered.text, gathered.count, &*gathered.backend),
                ("abc", 3, session.backend())
            );
        }
    }
    Ok(())
}

/// Each note is answered before the next.
#[tokio::test]
async fn streams_in_both_directions_are_not_buffered() -> Result<()> {
    let site = site().await?;
    for carrier in Carrier::ALL {
        let mut client = EchoClient::connect(address(&site, carrier)?).await?;
        let mut session = Session::new(carrier);
        for _ in 0..3 {
            let (sender, receiver) = notes();
            let mut answers = converse(&mut client, &mut session, receiver).await?;
            for number in 0..5 {
                let text = format!("note {number}");
                sender.send(Note::new(&text)).await?;
                let note = next(&mut answers).await?;
                assert_eq!((&*note.text, &*note.backend), (&*text, session.backend()));
            }
            drop(sender);
            assert_eq!(answers.message().await?, None);
        }
    }
    Ok(())
}

/// The answer has trailers only, which carry the token.
#[tokio::test]
async fn a_call_that_fails_starts_a_session_too() -> Result<()> {
    let site = site().await?;
    for carrier in Carrier::ALL {
        let mut client = EchoClient::connect(address(&site, carrier)?).await?;
        let mut session = Session::new(carrier);
        for _ in 0..4 {
            let failure = client.say(session.call(Note::new("fail"))?).await;
            let status = failure.err().context("the call did not fail")?;
            assert_eq!(
                (status.code(), status.message()),
                (Code::FailedPrecondition, "as asked")
            );
            assert_eq!(status.metadata().get("x-trailing").context("no metadata")?, "last");
            answered(&mut session, status.metadata())?;
            say(&mut client, &mut session, "well").await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_stream_that_fails_keeps_its_trailing_metadata() -> Result<()> {
    let site = site().await?;
    for carrier in Carrier::ALL {
        let mut client = EchoClient::connect(address(&site, carrier)?).await?;
        let mut session = Session::new(carrier);
        for _ in 0..2 {
            let talk = stream::iter(["well", "fail"].map(Note::new));
            let mut answers = converse(&mut client, &mut session, talk).await?;
            assert_eq!(next(&mut answers).await?.text, "well");
            let status = answers.message().await.err().context("the stream did not fail")?;
            assert_eq!(status.code(), Code::FailedPrecondition);
            assert_eq!(status.metadata().get("x-trailing").context("no metadata")?, "last");
            assert_eq!(status.metadata().as_ref().len(), 1, "there is unexpected metadata");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_session_continues_after_its_backend_reset_a_stream() -> Result<()> {
    let site = site().await?;
    for carrier in Carrier::ALL {
        let mut client = EchoClient::connect(address(&site, carrier)?).await?;
        let mut session = Session::new(carrier);
        for _ in 0..3 {
            let (sender, receiver) = notes();
            let mut cut = session.call(receiver)?;
            cut.metadata_mut().insert("x-cut-after", "1".parse()?);
            let answer = client.converse(cut).await?;
            answered(&mut session, answer.metadata())?;
            let mut answers = answer.into_inner();
            sender.send(Note::new("well")).await?;
            next(&mut answers).await?;
            sender.send(Note::new("too much")).await?;
            let cut = poll::patiently("the reset", async { Ok(answers.message().await) }).await?;
            let status = cut.err().context("the stream was not reset")?;
            // The code differs if a message is being read at the reset.
            assert!([Code::Unknown, Code::Internal].contains(&status.code()), "{status}");
            say(&mut client, &mut session, "well").await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_backend_learns_that_its_client_has_gone() -> Result<()> {
    let site = site().await?;
    let mut client = EchoClient::connect(site.envoy.address()).await?;
    let mut session = Session::new(Carrier::Cookie);
    let endless = Note {
        count: u32::MAX,
        ..Note::new("again")
    };
    let answer = client.repeat(session.call(endless)?).await?;
    let mut notes = session.taken(answer)?;
    next(&mut notes).await?;
    let busy = || site.backends.iter().map(limpet_e2e::Backend::under_way).sum::<usize>();
    assert_eq!(busy(), 1);
    // Cancels the call. The connection stays open.
    drop(notes);
    until_idle(&site).await?;
    say(&mut client, &mut session, "well").await?;
    Ok(())
}

#[tokio::test]
async fn a_session_moves_when_its_backend_goes() -> Result<()> {
    let mut site = site().await?;
    for carrier in Carrier::ALL {
        let mut client = EchoClient::connect(address(&site, carrier)?).await?;
        let mut session = Session::new(carrier);
        let (_sender, receiver) = notes();
        let answer = client.converse(session.call(receiver)?).await?;
        answered(&mut session, answer.metadata())?;
        let lost = session.backend().to_owned();
        site.backend(&lost)?.stop().await;
        let mut answers = answer.into_inner();
        let cut = poll::patiently("the end of the stream", async { Ok(answers.message().await) }).await?;
        assert!(cut.is_err(), "the stream continues without its backend");
        let answer = client.say(session.call(Note::new("on"))?).await?;
        session.moved(answer.metadata().as_ref())?;
        say(&mut client, &mut session, "and on").await?;
        site.backend(&lost)?.restart()?;
    }
    Ok(())
}

/// Envoy's own answers are gRPC as well, but no backend gave them.
#[tokio::test]
async fn a_call_that_envoy_answers_starts_no_session() -> Result<()> {
    let mut site = site().await?;
    for backend in &mut site.backends {
        backend.stop().await;
    }
    for carrier in Carrier::ALL {
        let mut client = EchoClient::connect(address(&site, carrier)?).await?;
        let failure = client.say(Request::new(Note::new("hello"))).await;
        let status = failure.err().context("the call did not fail")?;
        assert_eq!(status.code(), Code::Unavailable);
        assert_eq!(carrier.token_in(status.metadata().as_ref()), None);
    }
    Ok(())
}
