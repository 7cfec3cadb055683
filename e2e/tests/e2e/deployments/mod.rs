//! What a deployment does to sessions: backends drain, fail and are replaced, Envoys restart and reload, keys change. Under load, and with
//! sessions in cookies and in headers where it makes a difference.

mod draining;
mod rolling;
