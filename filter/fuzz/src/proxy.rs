//! A request on a nameless route, and a response of the backend that was asked.

use limpet_core::fakes::{FakeRequest, FakeResponse};

pub(crate) const HOST: &str = "10.0.0.1:8080";

pub(crate) const NONCE: [u8; 4] = [7; 4];

pub(crate) fn request() -> FakeRequest {
    FakeRequest::on_nameless_route()
}

pub(crate) fn response(name: &str, fields: &[&[u8]]) -> FakeResponse {
    let response = FakeResponse::by(HOST).surely_as_asked().nonce(NONCE);
    fields
        .iter()
        .fold(response, |response, field| response.header(name, field))
}
