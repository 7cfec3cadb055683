//! Messages as they came. A decoded message of empty parts takes a hundred times its bytes; so reports are decoded one
//! at a time.

use std::fmt;
use std::marker::PhantomData;

use prost::Message;
use prost::bytes::Buf as _;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder};
use tonic::codegen::Bytes;
use tonic_prost::ProstEncoder;

/// Writes `E`, and reads bytes.
pub(super) struct BytesCodec<E>(PhantomData<E>);

impl<E> Default for BytesCodec<E> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<E> fmt::Debug for BytesCodec<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("BytesCodec")
    }
}

impl<E: Message + 'static> Codec for BytesCodec<E> {
    type Encode = E;
    type Decode = Bytes;
    type Encoder = ProstEncoder<E>;
    type Decoder = Self;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::default()
    }

    fn decoder(&mut self) -> Self::Decoder {
        Self::default()
    }
}

impl<E> Decoder for BytesCodec<E> {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, bytes: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(bytes.copy_to_bytes(bytes.remaining())))
    }
}
