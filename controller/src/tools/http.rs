//! A client for pages of this machine and of controllers: small, because it is copied into images of others. Envoy's
//! admin interface answers only HTTP/1.1, and 426 to HTTP/1.0.

use std::fmt;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

/// How long one answer may take: an Envoy under load answers late.
const PATIENCE: Duration = Duration::from_secs(5);
/// An answer is not read beyond this.
const LARGEST_ANSWER: usize = 16 << 20;

/// A server, by `host:port`.
#[derive(Debug)]
pub(super) struct Http(String);

impl fmt::Display for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why there is no good answer.
#[derive(Debug)]
pub(super) enum HttpError {
    Io(io::Error),
    Status { path: String, line: String },
}

impl HttpError {
    /// Whether no server listens there, and none will.
    pub(super) fn is_gone(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == ErrorKind::ConnectionRefused)
    }

    /// Whether the server has no such page.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Status { line, .. } if line.split(' ').nth(1) == Some("404"))
    }
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                f.write_str("no answer in time")
            }
            Self::Io(error) => error.fmt(f),
            Self::Status { path, line } => write!(f, "expected status 200 for {path}, found {line:?}"),
        }
    }
}

impl From<io::Error> for HttpError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Http {
    pub(super) fn new(address: String) -> Self {
        Self(address)
    }

    pub(super) fn post(&self, path: &str, deadline: Instant) -> Result<String, HttpError> {
        self.send("POST", path, deadline)
    }

    pub(super) fn get(&self, path: &str, deadline: Instant) -> Result<String, HttpError> {
        self.send("GET", path, deadline)
    }

    /// The body of the answer.
    fn send(&self, method: &str, path: &str, deadline: Instant) -> Result<String, HttpError> {
        let deadline = deadline.min(Instant::now() + PATIENCE);
        // The first address: a name of a Service has one, and another attempt may get another.
        let address = self.0.to_socket_addrs()?.next();
        let address = address.ok_or_else(|| io::Error::other("the name has no address"))?;
        let mut stream = TcpStream::connect_timeout(&address, left(deadline)?)?;
        stream.set_write_timeout(Some(left(deadline)?))?;
        let length = if method == "POST" { "content-length: 0\r\n" } else { "" };
        let request = format!("{method} {path} HTTP/1.1\r\nhost: {self}\r\n{length}connection: close\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        let answer = read(&mut stream, deadline)?;
        let (head, body) = split(&answer, b"\r\n\r\n")
            .ok_or(ErrorKind::UnexpectedEof)
            .map_err(io::Error::from)?;
        let head = String::from_utf8_lossy(head);
        let mut lines = head.split("\r\n");
        let line = lines.next().unwrap_or_default();
        if line.split(' ').nth(1) != Some("200") {
            let (path, line) = (path.to_owned(), line.to_owned());
            return Err(HttpError::Status { path, line });
        }
        let chunked = lines.any(|line| line.eq_ignore_ascii_case("transfer-encoding: chunked"));
        let body = if chunked { joined(body) } else { body.to_owned() };
        Ok(String::from_utf8_lossy(&body).into_owned())
    }
}

/// The time that is left: none is an error, because a timeout of zero would mean none at all.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(ErrorKind::TimedOut.into());
    }
    Ok(left)
}

/// All that Envoy sends until it closes the connection.
fn read(stream: &mut TcpStream, deadline: Instant) -> io::Result<Vec<u8>> {
    let mut answer = Vec::new();
    let mut part = [0; 16 * 1024];
    loop {
        stream.set_read_timeout(Some(left(deadline)?))?;
        match stream.read(&mut part) {
            Ok(0) => return Ok(answer),
            Ok(size) => answer.extend(part.iter().take(size)),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if answer.len() > LARGEST_ANSWER {
            return Err(io::Error::other("the answer is too long"));
        }
    }
}

/// What is before the first of these separators, and what is behind it.
fn split<'a>(bytes: &'a [u8], separator: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = bytes.windows(separator.len()).position(|window| window == separator)?;
    let (before, rest) = bytes.split_at_checked(at)?;
    Some((before, rest.strip_prefix(separator)?))
}

/// The content of the chunks of a body.
fn joined(mut body: &[u8]) -> Vec<u8> {
    let mut joined = Vec::new();
    while let Some((size, rest)) = split(body, b"\r\n") {
        let size = str::from_utf8(size)
            .ok()
            .and_then(|size| usize::from_str_radix(size, 16).ok());
        let Some((chunk, rest)) = size
            .filter(|size| *size > 0)
            .and_then(|size| rest.split_at_checked(size))
        else {
            break;
        };
        joined.extend(chunk);
        body = rest.strip_prefix(b"\r\n").unwrap_or(rest);
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::joined;

    #[test]
    fn a_body_is_joined_from_its_chunks() {
        assert_eq!(
            joined(b"5\r\nhello\r\nA\r\n 123456789\r\n0\r\n\r\n"),
            b"hello 123456789"
        );
        for cut in ["", "5", "5\r\nhel", "ffffffffffffffffff\r\nx", "x\r\n"] {
            assert_eq!(joined(cut.as_bytes()), b"", "{cut:?}");
        }
    }
}
